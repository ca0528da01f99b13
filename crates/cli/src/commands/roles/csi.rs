//! `forebay csi`

#![expect(clippy::disallowed_methods, reason = "the holder waits for callers in a thread")]

use forebay_core::{Error, ErrorKind, Result};
use forebay_csi::{Holder, Serving};
use forebay_server::{StopSignal, allow_files, init_logs};

use crate::arguments::Csi;
use crate::exit::Failure;
use crate::host::Host;
use crate::output;

pub(crate) fn run(arguments: Csi, host: &dyn Host) -> Result<(), Failure> {
    init_logs("info").map_err(Failure::Usage)?;
    let done = if arguments.hold { hold(&arguments) } else { serve(arguments, host) };
    Ok(done?)
}

fn serve(arguments: Csi, host: &dyn Host) -> Result<()> {
    allow_files()?;
    let stop = StopSignal::new()?;
    let options = arguments.options(host.command());
    let line = format!("serving {} as node {}", options.endpoint, options.node);
    let serving = Serving::start(options)?;
    output::line(&line)?;
    let stopped = stop.wait(|| serving.check());
    serving.end();
    stopped
}

/// Runs the holder until a signal. Then mounts end whose device no other process has open.
fn hold(arguments: &Csi) -> Result<()> {
    let stop = StopSignal::new()?;
    let holder = Holder::new(&arguments.state)?;
    let until_empty = arguments.until_empty;
    let held =
        std::thread::Builder::new().name("forebay-holder".to_owned()).spawn(move || holder.serve(until_empty))?;
    let over = || Error::new(ErrorKind::Closed, "the holder has ended");
    match stop.wait(|| if held.is_finished() { Err(over()) } else { Ok(()) }) {
        Ok(()) => Ok(()),
        Err(_) => held.join().map_err(|_| Error::internal("the holder panicked"))?,
    }
}
