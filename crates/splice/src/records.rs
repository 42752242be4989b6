//! The records of requests whose responses are still to come. Their number is fixed, and so
//! the memory.
use crate::edits::before;
use crate::record::Record;

/// A record in its place.
#[derive(Debug)]
struct Slot {
    record: Record,
    /// The next one of the same connection.
    next: Option<u32>,
    /// The place of its request among those of the connection to the backend.
    number: u32,
    /// Where the response begins and ends, in the backend's numbers, once that is known.
    begun: Option<u32>,
    end: Option<u32>,
}

/// The records of one connection, in the order of its requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queue {
    first: Option<u32>,
    last: Option<u32>,
}

/// The records of all connections.
#[derive(Debug)]
pub(crate) struct Records {
    slots: Vec<Slot>,
    free: Vec<u32>,
    max: usize,
}

impl Records {
    /// Room for `max` records.
    pub(crate) fn new(max: usize) -> Self {
        Self { slots: Vec::with_capacity(max), free: Vec::with_capacity(max), max }
    }

    /// Puts a record behind those of `queue`. `false`: there is no room.
    pub(crate) fn push(&mut self, queue: &mut Queue, record: Record, number: u32) -> bool {
        let slot = Slot { record, next: None, number, begun: None, end: None };
        let at = match self.free.pop() {
            Some(at) => {
                if let Some(own) = self.slots.get_mut(at as usize) {
                    *own = slot;
                }
                at
            }
            None if self.slots.len() >= self.max => return false,
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        match queue.last.and_then(|last| self.slots.get_mut(last as usize)) {
            Some(last) => last.next = Some(at),
            None => queue.first = Some(at),
        }
        queue.last = Some(at);
        true
    }

    /// The record of the request with this number.
    pub(crate) fn find(&mut self, queue: Queue, number: u32) -> Option<&mut Record> {
        let at = self.place(queue, number)?;
        self.slots.get_mut(at).map(|slot| &mut slot.record)
    }

    /// The response to the request with this number begins at `begun`.
    pub(crate) fn begin(&mut self, queue: Queue, number: u32, begun: u32) {
        if let Some(slot) = self.place(queue, number).and_then(|at| self.slots.get_mut(at)) {
            slot.begun = Some(begun);
        }
    }

    /// The response to the request with this number is whole, and ends at `end`.
    pub(crate) fn end(&mut self, queue: Queue, number: u32, (end, bytes): (u32, u64)) {
        if let Some(slot) = self.place(queue, number).and_then(|at| self.slots.get_mut(at)) {
            slot.end.get_or_insert(end);
            slot.record.bytes[1] = bytes;
        }
    }

    fn place(&self, queue: Queue, number: u32) -> Option<usize> {
        let mut at = queue.first;
        while let Some(slot) = at.and_then(|at| self.slots.get(at as usize)) {
            if slot.number == number {
                return at.map(|at| at as usize);
            }
            at = slot.next;
        }
        None
    }

    /// Where the first response ends that is whole but has not passed.
    pub(crate) fn next_end(&self, queue: Queue) -> Option<u32> {
        self.slots.get(queue.first? as usize)?.end
    }

    /// Takes the first record, if its response ends at or before `passed`, or whatever it
    /// is without that; and where the response begins.
    pub(crate) fn pop(
        &mut self,
        queue: &mut Queue,
        passed: Option<u32>,
    ) -> Option<(Record, Option<u32>)> {
        let at = queue.first?;
        let slot = self.slots.get(at as usize)?;
        if let Some(passed) = passed
            && slot.end.is_none_or(|end| before(passed, end))
        {
            return None;
        }
        let found = (slot.record, slot.begun);
        queue.first = slot.next;
        if queue.first.is_none() {
            queue.last = None;
        }
        self.free.push(at);
        Some(found)
    }
}
