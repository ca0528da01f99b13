//! Keeps a dispatcher's files private to its user.

use rustix::fs::Mode;

/// Makes every new file and folder of this process private to its user, under any umask. Only for processes that run no
/// functions of users, whose files the users may want to share.
pub fn keep_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}
