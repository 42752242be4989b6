//! Worker loops, the glue of pipeline and ports, utilization.
#![forbid(unsafe_code)]
