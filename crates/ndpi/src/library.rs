//! libndpi behind safe types.
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

#[link(name = "hnlb_ndpi", kind = "static")]
unsafe extern "C" {
    fn hnlb_ndpi_new() -> *mut c_void;
    fn hnlb_ndpi_free(module: *mut c_void);
    fn hnlb_ndpi_flow_new() -> *mut c_void;
    fn hnlb_ndpi_flow_free(flow: *mut c_void);
    fn hnlb_ndpi_packet(
        module: *mut c_void,
        flow: *mut c_void,
        packet: *const u8,
        length: u16,
        now_ms: u64,
        protocol: *mut u16,
    ) -> c_int;
    fn hnlb_ndpi_name(module: *mut c_void, protocol: u16) -> *const c_char;
}

/// libndpi's detection module. It is used by one thread, as libndpi demands; that it is
/// neither `Send` nor `Sync` follows from the pointer.
#[derive(Debug)]
pub(crate) struct Module(NonNull<c_void>);

/// What libndpi knows of one flow.
#[derive(Debug)]
pub(crate) struct Flow(NonNull<c_void>);

impl Module {
    /// A module with all protocols; `None`: no memory.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: no arguments; libndpi has no other user in this thread's process, since
        // the type stays on its thread and a process makes one.
        NonNull::new(unsafe { hnlb_ndpi_new() }).map(Self)
    }

    /// Looks at an IP packet of a flow. The flow's protocol, if this packet decides it.
    pub(crate) fn look(&mut self, flow: &mut Flow, packet: &[u8], now_ms: u64) -> Option<u16> {
        let length = u16::try_from(packet.len()).ok()?;
        let mut protocol = 0;
        // SAFETY: module and flow are live and ours alone (`&mut`); libndpi reads
        // `length` bytes of `packet`, which outlives the call, and the shim writes one
        // number.
        let decided = unsafe {
            let (module, flow) = (self.0.as_ptr(), flow.0.as_ptr());
            hnlb_ndpi_packet(module, flow, packet.as_ptr(), length, now_ms, &raw mut protocol)
        };
        (decided != 0).then_some(protocol)
    }

    /// The name of a protocol.
    pub(crate) fn name(&self, protocol: u16) -> String {
        // SAFETY: the module is live; libndpi gives a string that lives as long as it, or
        // null.
        let name = unsafe { hnlb_ndpi_name(self.0.as_ptr(), protocol) };
        if name.is_null() {
            return protocol.to_string();
        }
        // SAFETY: not null, and a C string.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: made by `hnlb_ndpi_new` and freed once. Flows don't point into it.
        unsafe { hnlb_ndpi_free(self.0.as_ptr()) }
    }
}

impl Flow {
    /// A flow without packets; `None`: no memory.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: no arguments.
        NonNull::new(unsafe { hnlb_ndpi_flow_new() }).map(Self)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        // SAFETY: made by `hnlb_ndpi_flow_new` and freed once.
        unsafe { hnlb_ndpi_flow_free(self.0.as_ptr()) }
    }
}
