use std::future::poll_fn;
use std::io::Write;

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;

/// Both ends of a connection.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (near, listener.accept().await.unwrap().0)
}

fn file(bytes: &[u8]) -> Arc<File> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Arc::new(file)
}

fn sample(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251).to_le_bytes()[0]).collect()
}

/// Writes all of these slices, as hyper does.
async fn write(direct: &Direct, stream: &mut TcpStream, mut pieces: VecDeque<Bytes>) -> io::Result<()> {
    while !pieces.is_empty() {
        let slices: Vec<_> = pieces.iter().map(|bytes| IoSlice::new(bytes)).collect();
        let mut sent = poll_fn(|context| direct.poll_write(stream, context, &slices)).await?;
        while let Some(first) = pieces.front_mut() {
            let now = sent.min(first.len());
            sent -= now;
            let _ = first.split_to(now);
            if !first.is_empty() {
                break;
            }
            pieces.pop_front();
        }
    }
    direct.settle()
}

#[tokio::test]
async fn what_arrives_is_the_file() {
    let bytes = sample(3 * MOST + 4321);
    let (file, direct) = (file(&bytes), Arc::new(Direct::default()));
    let len = bytes.len();
    // Whole, odd ends, one byte, nothing.
    for (at, end) in [(0, len), (1, len - 1), (MOST - 1, MOST + 1), (len - 1, len), (7, 7)] {
        let (mut near, mut far) = pair().await;
        let mut sending = Sending::new(&direct, Arc::clone(&file), at as u64, (end - at) as u64);
        let sent = async {
            write(&direct, &mut near, VecDeque::from([Bytes::from_static(b"head "), Bytes::from_static(b"and ")]))
                .await?;
            while let Some(piece) = poll_fn(|context| sending.poll_next(context)).await {
                // What was queued before goes before, and what was queued behind goes behind.
                let around = [Bytes::from_static(b"<"), piece?, Bytes::from_static(b">")];
                write(&direct, &mut near, around.into()).await?;
            }
            drop(near);
            io::Result::Ok(())
        };
        let mut arrived = Vec::new();
        let (sent, read) = tokio::join!(sent, far.read_to_end(&mut arrived));
        sent.unwrap();
        read.unwrap();
        let mut expected = b"head and ".to_vec();
        for piece in bytes[at..end].chunks(MOST) {
            expected.extend_from_slice(&[b"<", piece, b">"].concat());
        }
        assert!(arrived == expected, "{at}..{end}: {} bytes", arrived.len());
    }
}

#[tokio::test]
async fn a_file_system_that_can_not_is_read() {
    // The kernel does not send files of this kind.
    let file = Arc::new(File::open("/proc/version").unwrap());
    let bytes = std::fs::read("/proc/version").unwrap();
    let direct = Direct::default();
    let (mut near, mut far) = pair().await;
    let piece = direct.stand_in(&file, 3, bytes.len() - 3).unwrap();
    write(&direct, &mut near, [piece].into()).await.unwrap();
    drop(near);
    let mut arrived = Vec::new();
    far.read_to_end(&mut arrived).await.unwrap();
    assert_eq!(arrived, bytes[3..]);
}

#[tokio::test]
async fn stand_ins_out_of_step_are_never_sent() {
    let (file, direct) = (file(&sample(1000)), Direct::default());
    let (mut near, _far) = pair().await;
    let first = direct.stand_in(&file, 0, 500).unwrap();
    let second = direct.stand_in(&file, 500, 500).unwrap();
    for wrong in [second, first.slice(1..), first.slice(..499)] {
        let error = write(&direct, &mut near, [wrong].into()).await.unwrap_err();
        assert_eq!(error.to_string(), out_of_step().to_string());
    }
    // One that was copied: nobody has asked for what it stands for.
    assert!(write(&direct, &mut near, [Bytes::copy_from_slice(&first)].into()).await.is_err());
    // One of another connection.
    assert!(write(&Direct::default(), &mut near, [first.clone()].into()).await.is_err());
    // A file that was cut.
    assert!(direct.send(&first, &near).is_ok());
    let cut = direct.stand_in(&file, 1000, 1).unwrap();
    direct.notes().unwrap().waiting.pop_front();
    assert_eq!(direct.send(&cut, &near).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}
