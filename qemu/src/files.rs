//! A plain HTTP server for image files, the "somewhere else" that a host's `image.url` names: in
//! the lab nothing else is reachable. One request, one file; the appliance keeps its own copy.

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_LENGTH};
use http_body_util::{BodyExt, Empty, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    fs::File,
    io::AsyncReadExt as _,
    net::TcpListener,
    task::{AbortHandle, JoinSet},
};

/// Read from disk and sent at once; large enough that the cost of a call does not show.
const CHUNK_BYTES: usize = 256 * 1024;

type Body = BoxBody<Bytes, io::Error>;
type Published = Arc<Mutex<HashMap<String, PathBuf>>>;

/// Serves until dropped.
#[derive(Debug)]
pub struct FileServer {
    address: SocketAddr,
    published: Published,
    task: AbortHandle,
}

impl FileServer {
    pub async fn start(address: Ipv4Addr) -> io::Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        let published = Published::default();
        let task = tokio::spawn(accept(listener, published.clone())).abort_handle();
        Ok(Self { address, published, task })
    }

    /// Publishes a file under its own name and gives its URL.
    #[must_use]
    pub fn publish(&self, path: &Path) -> String {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let url = format!("http://{}/{name}", self.address);
        self.published.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("/{name}"), path.to_owned());
        url
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, published: Published) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let published = published.clone();
        connections.spawn(async move {
            let service = service_fn(|request| serve(published.clone(), request));
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn serve(published: Published, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = published.lock().unwrap_or_else(PoisonError::into_inner).get(request.uri().path()).cloned();
    let opened = match path {
        Some(path) => open(&path).await.ok(),
        None => None,
    };
    let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed());
    let Some((file, length)) = opened else {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return Ok(response);
    };
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    if request.method() == http::Method::GET {
        *response.body_mut() = BodyExt::boxed(StreamBody::new(stream::try_unfold(file, next_chunk)));
    }
    Ok(response)
}

async fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = File::open(path).await?;
    let length = file.metadata().await?.len();
    Ok((file, length))
}

async fn next_chunk(mut file: File) -> io::Result<Option<(Frame<Bytes>, File)>> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    (&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut chunk).await?;
    Ok((!chunk.is_empty()).then(|| (Frame::data(Bytes::from(chunk)), file)))
}
