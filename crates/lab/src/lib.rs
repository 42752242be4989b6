//! The lab: network namespaces with clients, backends and HNLB between them.
#![forbid(unsafe_code)]
