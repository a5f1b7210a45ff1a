//! The one door: a credential goes in, a tenant and a role come out. Nothing else names a tenant for a request.

use std::net::SocketAddr;

use http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use crate::{
    config::access::{Role, Settings},
    otlp::{self, Authenticate},
    tenant::{InvalidTenantId, TenantId},
};

/// Who asks, and what for whom they may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whose records they are.
    pub tenant: TenantId,
    /// What may be done with them.
    pub role: Role,
}

impl Access {
    /// The access of everyone who reaches a server without keys.
    pub fn embedded() -> Self {
        Self { tenant: TenantId::embedded(), role: Role::Admin }
    }

    /// True when records may be sent.
    pub fn may_write(&self) -> bool {
        matches!(self.role, Role::Writer | Role::Developer | Role::Admin)
    }

    /// True when it may be read what runs did: lists, trees, verdicts.
    pub fn may_read(&self) -> bool {
        matches!(self.role, Role::Developer | Role::Auditor | Role::Admin)
    }

    /// True when content may be read: messages, arguments, results, attributes. An auditor reads none until there is
    /// redaction.
    pub fn may_read_content(&self) -> bool {
        matches!(self.role, Role::Developer | Role::Admin)
    }
}

/// Why a credential or the list of keys was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server has keys and the request has none.
    #[error("a key is needed: send it as `Authorization: Bearer KEY`")]
    Missing,
    /// No key is the given one.
    #[error("the key is not known; check it, or ask the operator for one")]
    Unknown,
    /// An entry's hash is not 64 hex digits.
    #[error("access.keys: the hash of key {0:?} is not 64 hex digits; make one with `spanreel keys hash`")]
    Hash(String),
    /// An entry's tenant cannot be one.
    #[error("access.keys: the tenant of key {name:?} is {source}")]
    Tenant {
        /// The entry's name.
        name: String,
        /// Why.
        source: InvalidTenantId,
    },
    /// Two entries hold the same key.
    #[error("access.keys: keys {0:?} and {1:?} have the same hash; remove one")]
    Duplicate(String, String),
    /// A port that others can reach, and no key.
    #[error(
        "{flag} {address} can be reached from other machines, and there are no keys; add access.keys to the configuration or listen on 127.0.0.1"
    )]
    Exposed {
        /// The flag that asks for it.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
    },
}

/// The keys of a server.
#[derive(Debug, Default)]
pub struct Keys(Vec<Key>);

#[derive(Debug)]
struct Key {
    name: String,
    hash: [u8; 32],
    access: Access,
}

impl Keys {
    /// Checks and takes the keys of the configuration.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let mut keys: Vec<Key> = Vec::with_capacity(settings.keys.len());
        for entry in &settings.keys {
            let mut hash = [0; 32];
            hex::decode_to_slice(&entry.hash, &mut hash).map_err(|_| Error::Hash(entry.name.clone()))?;
            if let Some(same) = keys.iter().find(|k| k.hash == hash) {
                return Err(Error::Duplicate(same.name.clone(), entry.name.clone()));
            }
            let tenant =
                entry.tenant.parse().map_err(|source| Error::Tenant { name: entry.name.clone(), source })?;
            keys.push(Key { name: entry.name.clone(), hash, access: Access { tenant, role: entry.role } });
        }
        Ok(Self(keys))
    }

    /// True when the server has no keys: everyone who reaches it is let in as tenant `default`.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the holder of `authorization` (the header's value) may do.
    ///
    /// Every key is compared, in constant time, so that the time taken tells nothing of them.
    pub fn admit(&self, authorization: Option<&str>) -> Result<Access, Error> {
        if self.is_empty() {
            return Ok(Access::embedded());
        }
        let key = authorization.and_then(bearer).ok_or(Error::Missing)?;
        let given = blake3::hash(key.as_bytes());
        let mut found = None;
        for key in &self.0 {
            if bool::from(key.hash.ct_eq(given.as_bytes())) {
                found = Some(&key.access);
            }
        }
        found.cloned().ok_or(Error::Unknown)
    }

    /// Refuses an address that other machines can reach while there are no keys. `flag` asked for it.
    pub fn allow_bind(&self, flag: &'static str, address: SocketAddr) -> Result<(), Error> {
        if self.is_empty() && !address.ip().is_loopback() {
            return Err(Error::Exposed { flag, address });
        }
        Ok(())
    }
}

impl Authenticate for Keys {
    fn writer(&self, headers: &HeaderMap) -> Result<TenantId, otlp::Error> {
        let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let access = self.admit(header).map_err(|error| otlp::Error::Unauthenticated(error.to_string()))?;
        if access.may_write() {
            Ok(access.tenant)
        } else {
            Err(otlp::Error::Forbidden("the role of this key may not send; use a writer's key".into()))
        }
    }
}

/// The hash under which the configuration holds a key.
pub fn key_hash(key: &str) -> String {
    blake3::hash(key.as_bytes()).to_hex().to_string()
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, key) = authorization.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::access::KeyEntry;

    fn entry(name: &str, key: &str, tenant: &str, role: Role) -> KeyEntry {
        KeyEntry { name: name.into(), hash: key_hash(key), tenant: tenant.into(), role }
    }

    fn keys(entries: Vec<KeyEntry>) -> Result<Keys, Error> {
        Keys::new(&Settings { keys: entries })
    }

    #[test]
    fn a_key_opens_another_tenant() {
        let keys = keys(vec![
            entry("a", "key-a", "acme", Role::Developer),
            entry("b", "key-b", "beta", Role::Writer),
        ])
        .unwrap();
        let access = keys.admit(Some("Bearer key-b")).unwrap();
        assert_eq!(access, Access { tenant: "beta".parse().unwrap(), role: Role::Writer });
        assert!(matches!(keys.admit(Some("Bearer key-c")), Err(Error::Unknown)));
        for none in [None, Some(""), Some("Bearer "), Some("Basic key-a"), Some("key-a")] {
            assert!(matches!(keys.admit(none), Err(Error::Missing)), "{none:?}");
        }
    }

    #[test]
    fn a_writer_reads_or_an_auditor_sees_content() {
        let access = |role| Access { tenant: TenantId::embedded(), role };
        let writer = access(Role::Writer);
        assert!(writer.may_write() && !writer.may_read() && !writer.may_read_content());
        let auditor = access(Role::Auditor);
        assert!(!auditor.may_write() && auditor.may_read() && !auditor.may_read_content());
    }

    #[test]
    fn a_list_of_keys_that_cannot_work_is_taken() {
        let bad = KeyEntry { hash: "abc".into(), ..entry("a", "k", "acme", Role::Admin) };
        assert!(matches!(keys(vec![bad]), Err(Error::Hash(_))));
        assert!(matches!(keys(vec![entry("a", "k", "../x", Role::Admin)]), Err(Error::Tenant { .. })));
        let twice = vec![entry("a", "k", "acme", Role::Admin), entry("b", "k", "beta", Role::Admin)];
        assert!(matches!(keys(twice), Err(Error::Duplicate(..))));
    }

    #[test]
    fn an_open_port_is_served_without_keys() {
        let open: SocketAddr = "0.0.0.0:4319".parse().unwrap();
        assert!(matches!(Keys::default().allow_bind("--listen-api", open), Err(Error::Exposed { .. })));
        assert!(Keys::default().allow_bind("--listen-api", "[::1]:0".parse().unwrap()).is_ok());
        assert!(
            keys(vec![entry("a", "k", "acme", Role::Admin)])
                .unwrap()
                .allow_bind("--listen-api", open)
                .is_ok()
        );
    }
}
