//! Errors of the client, by what they say about whether the request was executed.

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum EtcdError {
    /// The request was certainly not executed: no endpoint could be connected to, or etcd refused it before executing.
    #[error(
        "no etcd endpoint accepted the request ({tried}); check that etcd runs there, is reachable, and has a leader"
    )]
    NotSent { tried: String },
    /// The request may have been executed or not: the connection ended, or time was over, after something was sent.
    #[error(
        "it is not known whether etcd executed the request ({tried}); check with `etcdctl endpoint health`, then try again"
    )]
    Unknown { tried: String },
    /// The database has reached its quota. Nearly always nothing was executed; but etcd gives the same answer to a
    /// change that it has executed when the quota is reached between accepting it and executing it.
    #[error(
        "etcd's database is full; compact and defragment it or raise its --quota-backend-bytes, \
         then run `etcdctl alarm disarm`"
    )]
    NoSpace,
    /// The lease has expired, or was revoked. Nothing was executed.
    #[error("the lease has expired in etcd")]
    NoLease,
    /// TLS or authentication refused it. Nothing was executed.
    #[error(
        "access to etcd was refused ({tried}); check the files of the CA, the certificate and the key; \
         etcd's user names and passwords are not supported"
    )]
    Denied { tried: String },
    /// The request is larger, or has more operations, than etcd's settings allow. Nothing was executed.
    #[error(
        "the request is larger than etcd accepts; raise its --max-request-bytes (default 1.5 MiB) \
         or --max-txn-ops (default 128)"
    )]
    TooLarge,
    /// The answer makes no sense. The request may have been executed.
    #[error("the answer of {endpoint} to {path} is not that of etcd 3.4 or later ({reason}); check the address")]
    Malformed { endpoint: String, path: String, reason: String },
    /// Any other error that etcd reports. Nothing was executed.
    #[error("etcd at {endpoint} rejected {path}: {message}")]
    Rejected { endpoint: String, path: String, message: String },
}

impl EtcdError {
    /// Whether the request was certainly not executed.
    #[must_use]
    pub fn is_not_executed(&self) -> bool {
        !matches!(self, EtcdError::Unknown { .. } | EtcdError::Malformed { .. } | EtcdError::NoSpace)
    }
}
