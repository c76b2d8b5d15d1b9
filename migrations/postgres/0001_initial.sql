-- The tables of migrations/sqlite, column by column; a test holds the two against each other.
-- Times are bound from the program's clock, truncated to microseconds; only leases are reckoned in the database's own time.
-- The states that the contract knows are CHECK constraints here as well: a bug must not be able to store another.

create table users (
    id uuid primary key not null,
    email text not null unique,
    role text not null check (role in ('admin', 'user')),
    password_hash text not null,
    zone text not null,
    created_at timestamptz not null
);

create table sessions (
    id uuid primary key not null,
    token_hash bytea not null unique,
    user_id uuid not null references users (id) on delete cascade,
    device text not null,
    created_at timestamptz not null,
    seen_at timestamptz not null,
    expires_at timestamptz not null
);
create index sessions_of_user on sessions (user_id);

create table tokens (
    id uuid primary key not null,
    token_hash bytea not null unique,
    user_id uuid not null references users (id) on delete cascade,
    name text not null,
    created_at timestamptz not null,
    used_at timestamptz
);
create index tokens_of_user on tokens (user_id);

-- One row for each failed sign-in, so that the throttle survives a restart.
create table sign_in_failures (
    account text not null,
    at timestamptz not null
);
create index sign_in_failures_of_account on sign_in_failures (account, at);

-- A form as it was typed, until it becomes a job.
create table drafts (
    owner_id uuid not null references users (id) on delete cascade,
    request_key uuid not null,
    form text not null,
    updated_at timestamptz not null,
    primary key (owner_id, request_key)
);

create table uploads (
    id uuid primary key not null,
    owner_id uuid not null references users (id) on delete cascade,
    request_key uuid not null,
    name text not null,
    size bigint not null,
    sha256 bytea not null,
    by_hand text,
    modified_at timestamptz,
    created_at timestamptz not null,
    bytes bytea not null
);
create index uploads_of_request on uploads (owner_id, request_key);

create table jobs (
    id uuid primary key not null,
    owner_id uuid not null references users (id),
    request_key uuid not null,
    title text not null,
    month text not null,
    spec text not null,
    phase text not null check (phase in ('queued', 'running', 'stopping', 'cancelled', 'finished', 'failed')),
    version bigint not null,
    epoch bigint not null,
    lease_owner text,
    lease_expires_at timestamptz,
    lost_claims bigint not null,
    -- When a held job's e-mail goes out by itself; null while it waits for an approval, and for jobs that are not held.
    hold_until timestamptz,
    failed_step text,
    failure text,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    cancel_requested_at timestamptz,
    cancel_requested_by text,
    constraint jobs_request_key unique (owner_id, request_key),
    constraint jobs_final_has_end check ((finished_at is not null) = (phase in ('cancelled', 'finished', 'failed'))),
    constraint jobs_lease_whole check ((lease_owner is null) = (lease_expires_at is null)),
    constraint jobs_lease_only_at_work check (lease_owner is null or phase in ('running', 'stopping')),
    constraint jobs_stopping_was_asked check (phase not in ('stopping', 'cancelled') or cancel_requested_at is not null),
    constraint jobs_failure_has_reason check ((phase = 'failed') = (failure is not null))
);
create index jobs_of_owner on jobs (owner_id, id);
create index jobs_open on jobs (phase, id) where finished_at is null;

create table steps (
    job_id uuid not null references jobs (id) on delete cascade,
    position bigint not null,
    kind text not null check (kind in ('collect', 'summarize', 'save', 'hold', 'email')),
    state text not null check (state in ('pending', 'running', 'done', 'failed', 'stopped', 'skipped')),
    done bigint not null,
    total bigint not null,
    started_at timestamptz,
    ended_at timestamptz,
    primary key (job_id, kind)
);

-- What the outside can see. No foreign key to jobs: the history of effects outlives the deletion of a job.
create table effects (
    job_id uuid not null,
    number bigint not null,
    kind text not null check (kind in ('model_call', 'report', 'email')),
    outcome text not null check (outcome in ('not_started', 'in_flight', 'in_doubt', 'done', 'not_done', 'unconfirmed')),
    not_done text check (not_done in ('refused', 'unreached', 'gave_up', 'broken_off')),
    attempts bigint not null,
    epoch bigint not null,
    evidence text,
    target text not null,
    message_id text,
    created_at timestamptz not null,
    changed_at timestamptz not null,
    primary key (job_id, number),
    constraint effects_done_has_evidence check (outcome <> 'done' or coalesce(evidence, '') <> ''),
    constraint effects_not_done_has_reason check ((outcome = 'not_done') = (not_done is not null)),
    constraint effects_doubt_is_email check (outcome <> 'in_doubt' or kind = 'email')
);
create unique index effects_one_message_per_recipient on effects (job_id, target) where kind = 'email';
create index effects_open on effects (changed_at) where outcome in ('in_flight', 'in_doubt', 'unconfirmed');
create index effects_by_time on effects (changed_at, job_id, number);

create table attempts (
    job_id uuid not null,
    number bigint not null,
    attempt bigint not null,
    epoch bigint not null,
    outcome text not null check (outcome in ('in_flight', 'in_doubt', 'done', 'not_done', 'unconfirmed')),
    evidence text,
    began_at timestamptz not null,
    in_doubt_at timestamptz,
    ended_at timestamptz,
    primary key (job_id, number, attempt),
    foreign key (job_id, number) references effects (job_id, number)
);
-- The database itself refuses a silent duplicate: one live attempt for an effect.
create unique index attempts_one_live on attempts (job_id, number)
    where outcome in ('in_flight', 'in_doubt', 'unconfirmed', 'done');

-- `effect` is the number of the effect that an entry is about; those entries outlive the deletion of their job as well.
create table history (
    id bigint generated always as identity primary key,
    job_id uuid not null,
    effect bigint,
    at timestamptz not null,
    entry text not null
);
create index history_of_job on history (job_id, id);
create function forget_history_of_job() returns trigger language plpgsql as $$ begin
    delete from history where job_id = old.id and effect is null;
    return null;
end $$;
create trigger history_of_deleted_job after delete on jobs for each row execute function forget_history_of_job();

-- The history of effects is only ever added to.
create function refuse_change() returns trigger language plpgsql as $$ begin
    raise exception '%', tg_argv[0];
end $$;
create trigger effects_stay before delete on effects for each row execute function refuse_change('effects are never deleted');
create trigger effects_intent_stays before update of job_id, number, kind, target, message_id, created_at on effects
    for each row execute function refuse_change('the intent of an effect never changes');
create trigger effects_done_stay after update on effects for each row when (old.outcome = 'done')
    execute function refuse_change('an effect that is done never changes');
create trigger attempts_stay before delete on attempts for each row execute function refuse_change('attempts are never deleted');
create trigger attempts_settled_stay before update on attempts for each row when (old.outcome in ('done', 'not_done'))
    execute function refuse_change('an attempt that is settled never changes');
create trigger history_of_effects_stays before delete on history for each row when (old.effect is not null)
    execute function refuse_change('entries about effects are never deleted');
create trigger history_stays before update on history for each row execute function refuse_change('the history never changes');

-- What collecting found. `position` orders the coverage list; `number` is the document's number in the report.
create table documents (
    job_id uuid not null references jobs (id) on delete cascade,
    position bigint not null,
    number bigint,
    source text not null,
    name text not null,
    title text,
    sha256 bytea,
    date text,
    dated_by text,
    state text not null,
    reason text,
    text text,
    primary key (job_id, position)
);

create table summaries (
    job_id uuid primary key not null references jobs (id) on delete cascade,
    draft text not null
);

-- Rendered once, before the first attempt; only these bytes are ever sent.
create table messages (
    job_id uuid not null,
    number bigint not null,
    sender text not null,
    recipient text not null,
    message_id text not null unique,
    sha256 bytea not null,
    bytes bytea not null,
    created_at timestamptz not null,
    primary key (job_id, number),
    foreign key (job_id, number) references effects (job_id, number)
);

create table reports (
    id uuid primary key not null,
    job_id uuid not null unique references jobs (id),
    title text not null,
    markdown text not null,
    html text not null,
    provenance text not null,
    created_at timestamptz not null
);
