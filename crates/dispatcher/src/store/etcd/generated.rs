//! The messages of etcd's protocol, as far as the dispatcher uses it.

include!("generated/etcdserverpb.rs");
