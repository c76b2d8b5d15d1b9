//! The file store: where large uploads are kept outside of the database, in a folder that every machine has or in an object
//! store (S3, Google Cloud Storage, Azure).
//!
//! A file store takes no part in the database's transactions, so the order of writing makes up for it: an object is complete
//! before the row that names it is committed, and a row is gone before its object is removed. What can be left over is an
//! object that no row names, never a row that names nothing.

use chrono::{DateTime, Utc};
use futures_util::{StreamExt, stream};
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig, aws::AmazonS3Builder, azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder, local::LocalFileSystem, path::Path as Key,
};
use reqwest::Url;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{task::spawn_blocking, time::timeout};

/// The part of the place that is Recount's. Whatever else is there is never looked at.
const UPLOADS: &str = "uploads";
/// The longest silence while a file is read.
const IDLE: Duration = Duration::from_secs(30);
/// The longest that any one request may take, whatever arrives.
const LONGEST: Duration = Duration::from_mins(2);
const CONNECT: Duration = Duration::from_secs(5);
/// What S3, Google and Azure say where not only the object is missing.
const NO_PLACE: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];
/// A short outage is bridged. Somebody waits for the answer, so a longer one is told.
const RETRIES: usize = 3;
const RETRY_FOR: Duration = Duration::from_secs(15);

/// Where large uploads are kept instead of in the database.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSettings {
    /// The place, as an address: `file:///…`, `s3://…`, `gs://…` or `az://…`.
    pub store: String,
    /// Files of up to this many megabytes (1,000,000 bytes) stay in the database.
    #[serde(default = "FilesSettings::usual_limit")]
    pub in_database_up_to_mb: u32,
}

impl FilesSettings {
    /// Databases take a megabyte in their stride, and asking a store for one costs more time than moving it.
    fn usual_limit() -> u32 {
        1
    }
}

/// What is wrong with a file, or with the file store. As text it is for the log: it names the place and the cause.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The store does not answer, or says no; the files themselves may be all right.
    #[error("the file store {place} cannot be used: {cause}")]
    Unavailable { place: Arc<str>, cause: String },
    /// The store has no such object.
    #[error("the file store {place} has no object {name}; it was removed there, or this is not the place that it was put into")]
    Missing { place: Arc<str>, name: String },
    /// The object is not the one that was put there.
    #[error("the object {name} in the file store {place} has another size or SHA-256 than what was uploaded")]
    Changed { place: Arc<str>, name: String },
    /// A row names an object, and the settings name no store.
    #[error("uploaded files are in a file store, but recount.toml names none: set files.store to the place that they are in")]
    NotConfigured,
}

impl FilesError {
    /// The end of a sentence for people that begins with what does not work.
    pub fn in_words(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "the file store cannot be reached at the moment",
            Self::Missing { .. } => "it is no longer in the file store",
            Self::Changed { .. } => "what the file store has is not what was uploaded",
            Self::NotConfigured => "it is in a file store that is not set up here",
        }
    }

    /// Whether the same may work later without anybody's doing.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

/// Why a file store cannot be opened. What is checked is the setting; nothing is sent yet.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is none.
    #[error(
        "files.store must be an address such as file:///srv/recount/files, s3://bucket/folder, gs://bucket/folder or az://container/folder"
    )]
    Address,
    /// The address holds more than a place.
    #[error("files.store must be a place and nothing else; its user and key come from environment variables")]
    Credentials,
    /// The folder is not there, or not to be written to.
    #[error("the folder {} of files.store cannot be used: {cause}. Make it, or mount it", path.display())]
    Folder { path: PathBuf, cause: std::io::Error },
    /// The environment's variables do not fit together.
    #[error("the file store {place} cannot be set up: {cause}")]
    Client { place: Arc<str>, cause: object_store::Error },
}

/// An open file store.
#[derive(Debug, Clone)]
pub struct Files {
    store: Arc<dyn ObjectStore>,
    /// Above all objects.
    root: Key,
    /// The folder with the objects, where it is one.
    folder: Option<PathBuf>,
    /// The address, for the log.
    place: Arc<str>,
    /// Files of up to this many bytes are better kept in the database.
    in_database_up_to: u64,
}

impl Files {
    /// Opens the store that the settings name. Users and keys come from `environment`, by the names that each service's own
    /// tools use (`AWS_…`, `GOOGLE_…`, `AZURE_…`).
    pub fn open(settings: &FilesSettings, environment: impl IntoIterator<Item = (String, String)>) -> Result<Self, OpenError> {
        let url = Url::parse(&settings.store).map_err(|_| OpenError::Address)?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err(OpenError::Credentials);
        }
        let place: Arc<str> = url.as_str().into();
        let mut root = Key::from_url_path(url.path()).map_err(|_| OpenError::Address)?;
        let mut folder = None;
        let store: Arc<dyn ObjectStore> = if url.scheme() == "file" {
            let path = url.to_file_path().map_err(|()| OpenError::Address)?;
            root = Key::default();
            folder = Some(path.join(UPLOADS));
            Arc::new(open_folder(&path).map_err(|cause| OpenError::Folder { path, cause })?)
        } else {
            if url.host_str().is_none_or(str::is_empty) {
                return Err(OpenError::Address);
            }
            let client = open_service(&url, environment.into_iter().collect()).ok_or(OpenError::Address)?;
            client.map_err(|cause| OpenError::Client { place: place.clone(), cause })?
        };
        let in_database_up_to = u64::from(settings.in_database_up_to_mb) * 1_000_000;
        Ok(Self { store, root: root.join(UPLOADS), folder, place, in_database_up_to })
    }

    /// Whether a file of `size` bytes belongs here rather than into the database.
    pub fn takes(&self, size: usize) -> bool {
        u64::try_from(size).is_ok_and(|size| size > self.in_database_up_to)
    }

    /// Stores a file and gives the name under which it can be found again: 128 random bits, which nobody can guess and which
    /// tell nothing. When this has succeeded, the object is there as a whole and stays.
    pub async fn put(&self, bytes: Vec<u8>) -> Result<String, FilesError> {
        let name = format!("{:032x}", rand::random::<u128>());
        let key = self.key(&name);
        self.is_there().await?;
        match timeout(LONGEST, self.store.put(&key, bytes.into())).await {
            Ok(Ok(_)) => Ok(name),
            Ok(Err(error)) => Err(self.unavailable(&error)),
            Err(_) => Err(self.silent()),
        }
    }

    /// Reads a file, and makes sure that it is what was put there: `size` bytes with this SHA-256.
    pub async fn get(&self, name: &str, size: i64, sha256: &[u8]) -> Result<Vec<u8>, FilesError> {
        let read = timeout(LONGEST, self.read(name, usize::try_from(size).unwrap_or(0))).await;
        let bytes = read.unwrap_or_else(|_| Err(self.silent()))?;
        if Sha256::digest(&bytes).as_slice() == sha256 { Ok(bytes) } else { Err(self.changed(name)) }
    }

    async fn read(&self, name: &str, size: usize) -> Result<Vec<u8>, FilesError> {
        let key = self.key(name);
        let found = match timeout(IDLE, self.store.get(&key)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error @ object_store::Error::NotFound { .. })) => {
                self.is_there().await?;
                if NO_PLACE.iter().any(|code| error.to_string().contains(code)) {
                    return Err(self.unavailable(&error));
                }
                return Err(FilesError::Missing { place: self.place.clone(), name: name.to_owned() });
            }
            Ok(Err(error)) => return Err(self.unavailable(&error)),
            Err(_) => return Err(self.silent()),
        };
        // Whatever stands there instead of the file is not taken into memory.
        if usize::try_from(found.meta.size) != Ok(size) {
            return Err(self.changed(name));
        }
        let mut bytes = Vec::with_capacity(size);
        let mut chunks = found.into_stream();
        while let Some(chunk) = timeout(IDLE, chunks.next()).await.map_err(|_| self.silent())? {
            bytes.extend_from_slice(&chunk.map_err(|error| self.unavailable(&error))?);
            if bytes.len() > size {
                return Err(self.changed(name));
            }
        }
        Ok(bytes)
    }

    /// Removes objects; what is not there any more counts as removed. Returns how many are gone. Goes on after a failure, and
    /// tells of one at the end.
    pub async fn delete(&self, names: &[String]) -> Result<u64, FilesError> {
        let keys: Vec<_> = names.iter().map(|name| Ok(self.key(name))).collect();
        let mut removals = self.store.delete_stream(stream::iter(keys).boxed());
        let (mut gone, mut failure) = (0, None);
        while let Some(removal) = timeout(LONGEST, removals.next()).await.map_err(|_| self.silent())? {
            match removal {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => gone += 1,
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(gone), |error| Err(self.unavailable(&error)))
    }

    /// The names of all objects that are older than `before`, by the time that the store gives them.
    pub async fn older_than(&self, before: DateTime<Utc>) -> Result<Vec<String>, FilesError> {
        self.is_there().await?;
        let mut names = Vec::new();
        let mut list = self.store.list(Some(&self.root));
        while let Some(object) = timeout(LONGEST, list.next()).await.map_err(|_| self.silent())? {
            let object = object.map_err(|error| self.unavailable(&error))?;
            if object.last_modified < before {
                names.extend(self.name(&object.location));
            }
        }
        Ok(names)
    }

    /// Removes what was being written to a folder when its writer died, if it is older than `before`. Object stores do that
    /// themselves: they keep nothing of a request that was broken off.
    pub async fn remove_torn(&self, before: DateTime<Utc>) -> Result<u64, FilesError> {
        let Some(folder) = self.folder.clone() else { return Ok(0) };
        let unusable = |cause: String| FilesError::Unavailable { place: self.place.clone(), cause };
        let removal = spawn_blocking(move || remove_torn(&folder, before.into()));
        removal.await.map_err(|error| unusable(error.to_string()))?.map_err(|error| unusable(error.to_string()))
    }

    /// Makes sure that a folder that is not mounted is not taken for one without files, nor written to.
    async fn is_there(&self) -> Result<(), FilesError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        match timeout(IDLE, tokio::fs::metadata(folder)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                let cause = format!("the folder {}: {error}. Is it mounted?", folder.display());
                Err(FilesError::Unavailable { place: self.place.clone(), cause })
            }
            Err(_) => Err(self.silent()),
        }
    }

    fn key(&self, name: &str) -> Key {
        self.root.clone().join(name)
    }

    /// The name of an object, if it is one that [`Files::put`] has given.
    fn name(&self, key: &Key) -> Option<String> {
        let name = key.filename()?;
        (is_name(name) && self.key(name) == *key).then(|| name.to_owned())
    }

    fn unavailable(&self, error: &object_store::Error) -> FilesError {
        FilesError::Unavailable { place: self.place.clone(), cause: error.to_string() }
    }

    fn silent(&self) -> FilesError {
        FilesError::Unavailable { place: self.place.clone(), cause: "it does not answer".into() }
    }

    fn changed(&self, name: &str) -> FilesError {
        FilesError::Changed { place: self.place.clone(), name: name.to_owned() }
    }
}

fn is_name(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The folder itself must be there: made on the spot, it would hide that a shared one is not mounted.
fn open_folder(path: &Path) -> Result<LocalFileSystem, std::io::Error> {
    if !fs::metadata(path)?.is_dir() {
        return Err(std::io::ErrorKind::NotADirectory.into());
    }
    // Nobody else on the machine needs to read what people have uploaded.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path.join(UPLOADS))?;
    let store = LocalFileSystem::new_with_prefix(path).map_err(std::io::Error::other)?;
    // A committed row must not outlive its file in a power cut.
    Ok(store.with_fsync(true))
}

/// The client of the service that the address names; `None` if there is no such service.
fn open_service(url: &Url, environment: Vec<(String, String)>) -> Option<Result<Arc<dyn ObjectStore>, object_store::Error>> {
    let client = ClientOptions::new().with_connect_timeout(CONNECT).with_timeout(LONGEST);
    let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: RETRIES, retry_timeout: RETRY_FOR };
    // The builders' own `from_env` would read the process's environment, which a test cannot set.
    macro_rules! open {
        ($builder:ty, $prefix:literal) => {{
            let builder = <$builder>::new().with_client_options(client).with_retry(retry);
            let settings = environment.into_iter().filter(|(name, _)| name.starts_with($prefix));
            let builder = settings.fold(builder, |builder, (name, value)| match name.to_ascii_lowercase().parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            });
            builder.with_url(url.as_str()).build().map(|store| Arc::new(store) as Arc<dyn ObjectStore>)
        }};
    }
    Some(match url.scheme() {
        "s3" => open!(AmazonS3Builder, "AWS_"),
        "gs" => open!(GoogleCloudStorageBuilder, "GOOGLE_"),
        "az" => open!(MicrosoftAzureBuilder, "AZURE_"),
        _ => return None,
    })
}

/// Files that are being written have the name of the finished one, `#`, and a number.
fn remove_torn(folder: &Path, before: SystemTime) -> std::io::Result<u64> {
    let mut removed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let torn = name.to_str().and_then(|name| name.split_once('#')).is_some_and(|(name, _)| is_name(name));
        if torn && entry.metadata()?.modified()? < before {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}
