//! F22: lists that do not end.
//!
//! ```text
//! the same token again │ page after page without an item ──▶ the list is aborted, then asked for whole
//! ```
//!
//! Lists without an end over sockets, with their memory, are in `tests/it/hostile`.

use futures::stream;
use kinform::source::{Body, Wire};
use kinform::{Encoding, FirstList};

use super::{BACKOFF, Cell, SECOND, Setup, check, each};

/// BOUND: of the reflector: pages in a row without an item.
const EMPTY_PAGES: usize = 50;

/// A page without an item, that is not the last.
fn empty_page(wire: Wire, token: &str) -> Body {
    let (encoding, bytes) = match wire {
        Wire::Json => {
            let metadata = serde_json::json!({ "resourceVersion": "7", "continue": token });
            let list = serde_json::json!({
                "kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": [],
            });
            (Encoding::Json, list.to_string().into_bytes())
        }
        _ => {
            let metadata = [field(2, b"7"), field(3, token.as_bytes())].concat();
            let kind = [field(1, b"v1"), field(2, b"ConfigMapList")].concat();
            let unknown = [field(1, &kind), field(2, &field(1, &metadata))].concat();
            (Encoding::Protobuf, [b"k8s\0".to_vec(), unknown].concat())
        }
    };
    Body::new(encoding, stream::iter([Ok(bytes.into())]))
}

/// A field of protobuf that holds bytes, fewer than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap();
    assert!(length < 128);
    [&[number << 3 | 2, length], bytes].concat()
}

fn paged(cell: Cell) -> Setup {
    Setup::of(cell).options(|options| {
        options
            .with_page_size(5)
            .with_first_list(FirstList::MostRecent)
    })
}

// no fault: F22 json,protobuf x stream x in-order,coalescing: a streaming list has no pages; one without an end is F21
#[test]
fn f22_a_list_whose_pages_do_not_end_is_aborted_and_asked_for_in_one_piece() {
    let line = "F22 json,protobuf x list x in-order,coalescing";
    each(line, async |cell| {
        // The first page again and again, with its token.
        let mut stand = paged(cell).prepare().await?;
        stand.tamper.asking(|options| options.continue_token = None);
        stand.factory.start()?;
        stand.agrees(BACKOFF).await?;
        let pages = stand.requests();
        let pages = pages
            .iter()
            .filter(|record| record.query.contains("limit=5"));
        let pages = pages.count();
        check(pages == 2 && stand.failures() == ["Garbled"], || {
            format!("{pages} pages, {:?}", stand.failures())
        })?;
        tokio::time::sleep(10 * SECOND).await;
        stand.recovers(SECOND).await?;
        stand.end().await?;

        // Pages without an item, each with another token.
        let mut stand = paged(cell).prepare().await?;
        for page in 0..=EMPTY_PAGES {
            let token = format!("token-{page}");
            stand
                .tamper
                .reply(move || Ok(empty_page(cell.wire, &token)));
        }
        stand.factory.start()?;
        stand.agrees(BACKOFF).await?;
        check(stand.failures() == ["Garbled"], || {
            format!("{:?}", stand.failures())
        })?;
        tokio::time::sleep(10 * SECOND).await;
        stand.recovers(SECOND).await?;
        stand.end().await
    });
}
