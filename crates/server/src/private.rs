//! What a dispatcher writes is for its user alone.

use rustix::fs::Mode;

/// Makes every file and folder that this process makes from now on its user's alone, whatever the umask was. Only for processes that run
/// no functions of users, whose files are theirs to share.
pub fn keep_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}
