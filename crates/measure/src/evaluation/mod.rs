//! The parts of the evaluation: which points each measures, how often, and the
//! rows that come of them.
pub(crate) mod churn;
pub(crate) mod churn_clients;
pub(crate) mod contest;
pub(crate) mod elephants;
pub(crate) mod figure;
pub(crate) mod install;
pub(crate) mod latency;
pub(crate) mod new_connections;
pub(crate) mod options;
pub(crate) mod part;
pub(crate) mod rate_search;
pub(crate) mod repetitions;
pub(crate) mod whole;
pub(crate) mod workers;
