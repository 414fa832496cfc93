// Two nodes hold each other by Rc: nothing drops them.
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

struct Node {
    other: RefCell<Option<Rc<Node>>>,
    _data: Vec<u8>,
}

fn node() -> Rc<Node> {
    let data = vec![1u8; 131072]; // LEAK: 128 KiB
    Rc::new(Node { other: RefCell::new(None), _data: data })
}

fn main() {
    let seconds: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut step = 0;
    while Instant::now() < end {
        println!("step {step}");
        let (a, b) = (node(), node());
        *a.other.borrow_mut() = Some(b.clone());
        *b.other.borrow_mut() = Some(a);
        step += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
}
