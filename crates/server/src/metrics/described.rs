//! What each metric is called, what it counts, and what it tells.

/// Every metric: its name as exposed, its unit, and its help.
pub const METRICS: &[(&str, &str, &str)] = &[
    ("palisade_grants_total", "grants", "Acquisitions that were granted while this node led"),
    ("palisade_releases_total", "releases", "Releases that were applied while this node led"),
    ("palisade_holds_ended_total", "holds", "Holds of a slot that ended while this node led, by how"),
    (
        "palisade_wait_cycles_total",
        "cycles",
        "Wait cycles that were not let happen while this node led, by what met them",
    ),
    (
        "palisade_cycle_searches_given_up_total",
        "searches",
        "Searches of a wait cycle that were given up at their bound while this node led",
    ),
    (
        "palisade_session_takeovers_total",
        "sessions",
        "Sessions that a restarted process took over while this node led",
    ),
    ("palisade_session_expirations_total", "sessions", "Sessions that expired while this node led"),
    (
        "palisade_session_expirations_working_total",
        "sessions",
        "Sessions that expired although their holder's last report said that work was in progress",
    ),
    (
        "palisade_holder_pause_seconds",
        "seconds",
        "Longest time that a holder's process stood still between two keepalives, as it reported it",
    ),
    (
        "palisade_holder_pause_ttl_ratio",
        "part of the TTL",
        "The same, as a part of the TTL of each session that the process holds",
    ),
    (
        "palisade_holder_left_ttl_ratio",
        "part of the TTL",
        "What was left of a holder's belief in its lease when it sent a keepalive, as a part of the TTL",
    ),
    (
        "palisade_holder_throttled_seconds_total",
        "seconds",
        "Time that holders' CPU quotas kept them from running, as they reported it",
    ),
    (
        "palisade_holder_stolen_seconds_total",
        "seconds",
        "CPU time that the hosts of holders' machines took away, as they reported it",
    ),
    ("palisade_sessions", "sessions", "Live sessions"),
    ("palisade_locks_held", "slots", "Slots that are held"),
    ("palisade_waiters", "acquisitions", "Acquisitions that wait"),
    ("palisade_lock_delays", "slots", "Slots that are closed by their lock-delay"),
    ("palisade_baton_bytes", "bytes", "Bytes of the batons that are kept for next holders"),
    (
        "palisade_keepalive_round_seconds",
        "seconds",
        "Time of a round that proves leadership, for keepalives and reads",
    ),
    (
        "palisade_leader_pause_seconds",
        "seconds",
        "How long this process stood still, where it was noticeable",
    ),
    (
        "palisade_lease_extension_seconds_total",
        "seconds",
        "Longest extension of a lease by each pause of the leader",
    ),
    ("palisade_raft_term", "terms", "The Raft term"),
    ("palisade_raft_is_leader", "0 or 1", "Whether this node leads"),
    ("palisade_raft_committed_index", "entries", "Index of the last entry known to be committed"),
    ("palisade_raft_applied_index", "entries", "Index of the last applied entry"),
    (
        "palisade_proposals_undecided_bytes",
        "bytes",
        "Commands of this node that wait for their decision, with what each costs beside",
    ),
    ("palisade_raft_leader_changes_total", "changes", "Changes of the leader that this node saw"),
    (
        "palisade_snapshots_installed_total",
        "snapshots",
        "Snapshots of a leader that replaced this node's table",
    ),
    (
        "palisade_log_restarts_total",
        "restarts",
        "Panics of the replicated log after which this process started it again from the disk",
    ),
    ("palisade_flush_seconds", "seconds", "Time of a durable flush, percentiles of the last 1024"),
    ("palisade_proposals_failed_total", "commands", "Commands of this node that the log did not answer"),
    ("palisade_sequencer_checks_total", "checks", "Claims that this node checked"),
    (
        "palisade_resource_rejections_total",
        "refusals",
        "What resources refused, as they reported it to this node while it led, by why",
    ),
    (
        "palisade_resource_rejection_gap_entries",
        "entries",
        "How far a refused token was below what was accepted, once for each stale holder of a report",
    ),
    ("palisade_rejection_storms", "storms", "Stale holders that are refused again and again and do not stop"),
    ("palisade_rejection_storms_begun_total", "storms", "Storms that began while this node led"),
    ("palisade_streams", "streams", "Open session streams"),
    ("palisade_watch_streams", "streams", "Open watch streams and fence feeds"),
    ("palisade_watch_cuts_total", "streams", "Watch streams that were cut because they were not read"),
    (
        "palisade_watch_resynchronisations_total",
        "snapshots",
        "Gaps that watchers were told of, with a snapshot",
    ),
    ("palisade_requests_total", "requests", "Requests that came in"),
    ("palisade_build_info", "1", "The build"),
];
