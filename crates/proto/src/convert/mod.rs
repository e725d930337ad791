//! Messages to core types and back.
