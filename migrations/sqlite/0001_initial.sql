-- Times are RFC 3339 text in UTC, bound from the program's clock and truncated to microseconds.
-- The states that the contract knows are CHECK constraints here as well: a bug must not be able to store another.

create table users (
    id blob primary key not null,
    email text not null unique,
    role text not null check (role in ('admin', 'user')),
    password_hash text not null,
    zone text not null,
    created_at text not null
) strict;

create table sessions (
    id blob primary key not null,
    token_hash blob not null unique,
    user_id blob not null references users (id) on delete cascade,
    device text not null,
    created_at text not null,
    seen_at text not null,
    expires_at text not null
) strict;
create index sessions_of_user on sessions (user_id);

create table tokens (
    id blob primary key not null,
    token_hash blob not null unique,
    user_id blob not null references users (id) on delete cascade,
    name text not null,
    created_at text not null,
    used_at text
) strict;
create index tokens_of_user on tokens (user_id);

-- One row for each failed sign-in, so that the throttle survives a restart.
create table sign_in_failures (
    account text not null,
    at text not null
) strict;
create index sign_in_failures_of_account on sign_in_failures (account, at);

-- A form as it was typed, until it becomes a job.
create table drafts (
    owner_id blob not null references users (id) on delete cascade,
    request_key blob not null,
    form text not null,
    updated_at text not null,
    primary key (owner_id, request_key)
) strict;

create table uploads (
    id blob primary key not null,
    owner_id blob not null references users (id) on delete cascade,
    request_key blob not null,
    name text not null,
    size integer not null,
    sha256 blob not null,
    by_hand text,
    modified_at text,
    created_at text not null,
    bytes blob not null
) strict;
create index uploads_of_request on uploads (owner_id, request_key);

create table jobs (
    id blob primary key not null,
    owner_id blob not null references users (id),
    request_key blob not null,
    title text not null,
    month text not null,
    spec text not null,
    phase text not null check (phase in ('queued', 'running', 'stopping', 'cancelled', 'finished', 'failed')),
    version integer not null,
    epoch integer not null,
    lease_owner text,
    lease_expires_at text,
    lost_claims integer not null,
    -- When a held job's e-mail goes out by itself; null while it waits for an approval, and for jobs that are not held.
    hold_until text,
    failed_step text,
    failure text,
    created_at text not null,
    started_at text,
    finished_at text,
    cancel_requested_at text,
    cancel_requested_by text,
    constraint jobs_request_key unique (owner_id, request_key),
    constraint jobs_final_has_end check ((finished_at is not null) = (phase in ('cancelled', 'finished', 'failed'))),
    constraint jobs_lease_whole check ((lease_owner is null) = (lease_expires_at is null)),
    constraint jobs_lease_only_at_work check (lease_owner is null or phase in ('running', 'stopping')),
    constraint jobs_stopping_was_asked check (phase not in ('stopping', 'cancelled') or cancel_requested_at is not null),
    constraint jobs_failure_has_reason check ((phase = 'failed') = (failure is not null))
) strict;
create index jobs_of_owner on jobs (owner_id, id);
create index jobs_open on jobs (phase, id) where finished_at is null;

create table steps (
    job_id blob not null references jobs (id) on delete cascade,
    position integer not null,
    kind text not null check (kind in ('collect', 'summarize', 'save', 'hold', 'email')),
    state text not null check (state in ('pending', 'running', 'done', 'failed', 'stopped', 'skipped')),
    done integer not null,
    total integer not null,
    started_at text,
    ended_at text,
    primary key (job_id, kind)
) strict;

-- What the outside can see. No foreign key to jobs: the history of effects outlives the deletion of a job.
create table effects (
    job_id blob not null,
    number integer not null,
    kind text not null check (kind in ('model_call', 'report', 'email')),
    outcome text not null check (outcome in ('not_started', 'in_flight', 'in_doubt', 'done', 'not_done', 'unconfirmed')),
    not_done text check (not_done in ('refused', 'unreached', 'gave_up', 'broken_off')),
    attempts integer not null,
    epoch integer not null,
    evidence text,
    target text not null,
    message_id text,
    created_at text not null,
    changed_at text not null,
    primary key (job_id, number),
    constraint effects_done_has_evidence check (outcome <> 'done' or coalesce(evidence, '') <> ''),
    constraint effects_not_done_has_reason check ((outcome = 'not_done') = (not_done is not null)),
    constraint effects_doubt_is_email check (outcome <> 'in_doubt' or kind = 'email')
) strict;
create unique index effects_one_message_per_recipient on effects (job_id, target) where kind = 'email';
create index effects_open on effects (changed_at) where outcome in ('in_flight', 'in_doubt', 'unconfirmed');
create index effects_by_time on effects (changed_at, job_id, number);

create table attempts (
    job_id blob not null,
    number integer not null,
    attempt integer not null,
    epoch integer not null,
    outcome text not null check (outcome in ('in_flight', 'in_doubt', 'done', 'not_done', 'unconfirmed')),
    evidence text,
    began_at text not null,
    in_doubt_at text,
    ended_at text,
    primary key (job_id, number, attempt),
    foreign key (job_id, number) references effects (job_id, number)
) strict;
-- The database itself refuses a silent duplicate: one live attempt for an effect.
create unique index attempts_one_live on attempts (job_id, number)
    where outcome in ('in_flight', 'in_doubt', 'unconfirmed', 'done');

-- `effect` is the number of the effect that an entry is about; those entries outlive the deletion of their job as well.
create table history (
    id integer primary key,
    job_id blob not null,
    effect integer,
    at text not null,
    entry text not null
) strict;
create index history_of_job on history (job_id, id);
create trigger history_of_deleted_job after delete on jobs begin
    delete from history where job_id = old.id and effect is null;
end;

-- The history of effects is only ever added to. These fire after the row's own constraints, which therefore speak first.
create trigger effects_stay after delete on effects begin
    select raise(abort, 'effects are never deleted');
end;
create trigger effects_intent_stays after update of job_id, number, kind, target, message_id, created_at on effects begin
    select raise(abort, 'the intent of an effect never changes');
end;
create trigger effects_done_stay after update on effects when old.outcome = 'done' begin
    select raise(abort, 'an effect that is done never changes');
end;
create trigger attempts_stay after delete on attempts begin
    select raise(abort, 'attempts are never deleted');
end;
create trigger attempts_settled_stay after update on attempts when old.outcome in ('done', 'not_done') begin
    select raise(abort, 'an attempt that is settled never changes');
end;
create trigger history_of_effects_stays after delete on history when old.effect is not null begin
    select raise(abort, 'entries about effects are never deleted');
end;
create trigger history_stays after update on history begin
    select raise(abort, 'the history never changes');
end;

-- What collecting found. `position` orders the coverage list; `number` is the document's number in the report.
create table documents (
    job_id blob not null references jobs (id) on delete cascade,
    position integer not null,
    number integer,
    source text not null,
    name text not null,
    title text,
    sha256 blob,
    date text,
    dated_by text,
    state text not null,
    reason text,
    text text,
    primary key (job_id, position)
) strict;

create table summaries (
    job_id blob primary key not null references jobs (id) on delete cascade,
    draft text not null
) strict;

-- Rendered once, before the first attempt; only these bytes are ever sent.
create table messages (
    job_id blob not null,
    number integer not null,
    sender text not null,
    recipient text not null,
    message_id text not null unique,
    sha256 blob not null,
    bytes blob not null,
    created_at text not null,
    primary key (job_id, number),
    foreign key (job_id, number) references effects (job_id, number)
) strict;

create table reports (
    id blob primary key not null,
    job_id blob not null unique references jobs (id),
    title text not null,
    markdown text not null,
    html text not null,
    provenance text not null,
    created_at text not null
) strict;
