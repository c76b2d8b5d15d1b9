-- The schema. From the first release on this file stays as it is, and later ones only add to it.
--
-- Times are RFC 3339 text in UTC, bound from the program's clock and truncated to microseconds. Only leases and holds are
-- reckoned in a time that the machine's processes agree on (see machine_start).
-- The states that the contract knows are CHECK constraints here as well: a bug must not be able to store another.

-- People, and how they come in.

create table users (
    id blob primary key not null,
    email text not null unique,
    role text not null check (role in ('admin', 'user')),
    password_hash text not null,
    -- The time zone in which they read and order, by its IANA name.
    zone text not null,
    created_at text not null
) strict;

-- Who is signed in where. Of the secret in the cookie only its hash is kept.
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

-- The keys of programs that act for a person, as hashes too.
create table tokens (
    id blob primary key not null,
    token_hash blob not null unique,
    user_id blob not null references users (id) on delete cascade,
    name text not null,
    -- What a token may do, as scopes with a space between them (RFC 6749 3.3).
    scopes text not null,
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

-- Orders. `request_key` is made with the empty form and names the order from then on: sent twice, it makes one job.

-- A form as it was typed, until it becomes a job.
create table drafts (
    owner_id blob not null references users (id) on delete cascade,
    request_key blob not null,
    form text not null,
    updated_at text not null,
    primary key (owner_id, request_key)
) strict;

-- Files that were added to a form.
create table uploads (
    id blob primary key not null,
    owner_id blob not null references users (id) on delete cascade,
    request_key blob not null,
    name text not null,
    size integer not null,
    sha256 blob not null,
    -- The date of the document that the person has set, where they have.
    by_hand text,
    created_at text not null,
    bytes blob not null,
    -- Null: the bytes are in the row. Otherwise they are in the file store under this key, and `bytes` is empty.
    stored_as text
) strict;
create index uploads_of_request on uploads (owner_id, request_key);
-- Every object belongs to one row. Also the way to all of them that does not lead past the bytes of those that are in rows.
create unique index uploads_stored_as on uploads (stored_as) where stored_as is not null;

-- What was ordered, and where the work on it is: a report, or a mailing about one.
create table jobs (
    id blob primary key not null,
    owner_id blob not null references users (id),
    request_key blob not null,
    -- The job whose report this one writes about (a correction, a second copy); null for a report.
    about_job blob references jobs (id) on delete cascade,
    title text not null,
    month text not null,
    -- The order as JSON, written once.
    spec text not null,
    phase text not null check (phase in ('queued', 'running', 'stopping', 'cancelled', 'finished', 'failed')),
    -- Grows with every change, so that no screen replaces what is newer by what is older.
    version integer not null,
    -- Grows with every claim by a worker. What a worker writes under an earlier number is refused.
    epoch integer not null,
    lease_owner text,
    lease_expires_at text,
    -- How many workers have lost the job without getting on with it; after some, it fails.
    lost_claims integer not null,
    -- When a held job's e-mail goes out by itself; null while it waits for an approval, and for jobs that are not held.
    hold_until text,
    -- A job that was open in a backup when that was restored. Nobody here knows what happened to it afterwards, so that nothing of
    -- it goes on by itself until a person says so; null for all others.
    set_aside_at text,
    -- When the copy was restored in which an e-mail of this job was not proved. It stays when somebody lets the job go on.
    restored_at text,
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
create index jobs_about on jobs (about_job, id) where about_job is not null;
-- A worker looks for the next one all the time, by its id: in an order that began with the phase it would read all that ended.
create index jobs_open on jobs (id) where finished_at is null;
-- Whose jobs wait, from person to person: whoever has as many at work as anybody may is passed over with all that they have.
create index jobs_waiting on jobs (owner_id, id) where finished_at is null and lease_owner is null;
-- Who is at work, for the limit of jobs for each person; and which leases may have run out.
create index jobs_at_work on jobs (owner_id) where lease_owner is not null;
create index jobs_leases on jobs (lease_expires_at) where lease_expires_at is not null;
-- The holds that are due next, and nothing else: with more in the index, or less in the condition, PostgreSQL would rather read all
-- open jobs while it has no statistics.
create index jobs_holds on jobs (hold_until) where hold_until is not null and finished_at is null and set_aside_at is null;

-- What a job does, one after the other, and how far each is.
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
    -- Where the date is from, as people read it.
    dated_by text,
    state text not null,
    -- Why it was not read, or not all of it.
    reason text,
    text text,
    primary key (job_id, position)
) strict;

-- Calls to MCP servers that documents are asked from: what was begun is on record before it begins.
create table mcp_calls (
    job_id blob not null references jobs (id) on delete cascade,
    number integer not null,
    epoch integer not null,
    -- The source's id in the settings, and the name that people see.
    source_id text not null,
    source text not null,
    transport text not null check (transport in ('stdio', 'http')),
    method text not null,
    -- The tool, or the URI of the resource.
    target text not null,
    -- Of what was asked, so that a job that goes on finds the task of the same call again. Arguments may hold secrets.
    fingerprint text not null,
    state text not null check (state in ('running', 'answered', 'failed', 'timed_out', 'cancelled', 'abandoned')),
    detail text,
    -- The server's own job, where it has answered with one: the last status that was seen, and when it ended or was given up.
    task_id text,
    task_status text,
    task_ended_at text,
    started_at text not null,
    ended_at text,
    primary key (job_id, number),
    constraint mcp_calls_ended check ((ended_at is not null) = (state <> 'running')),
    constraint mcp_calls_task check (task_id is not null or (task_status is null and task_ended_at is null))
) strict;
create index mcp_calls_tasks on mcp_calls (job_id, number) where task_id is not null and task_ended_at is null;

-- What summarizing has made of the documents, as JSON, until it is saved as a report.
create table summaries (
    job_id blob primary key not null references jobs (id) on delete cascade,
    draft text not null
) strict;

-- What the outside can see of a job: one row for each thing that is to happen once. No foreign key to jobs: the history of
-- effects outlives the deletion of a job, so the title, the month and the owner stand here as well.
create table effects (
    job_id blob not null,
    number integer not null,
    kind text not null check (kind in ('model_call', 'report', 'email', 'withdrawal', 'deletion')),
    outcome text not null check (outcome in ('not_started', 'in_flight', 'in_doubt', 'done', 'not_done', 'unconfirmed')),
    not_done text check (not_done in ('refused', 'unreached', 'gave_up', 'broken_off', 'attested')),
    -- Why nobody can tell whether it has happened.
    unconfirmed text check (unconfirmed in ('unanswered', 'unattended', 'copied')),
    attempts integer not null,
    epoch integer not null,
    -- What the latest attempt at an e-mail hands it over to: settings change, and a folder that sends nothing is no mail service.
    via text not null default 'mail_service' check (via in ('mail_service', 'outbox')),
    evidence text,
    -- Whether a person's word is all that has settled it, and evidence that came after that word and says otherwise.
    attested integer not null default 0 check (attested in (0, 1)),
    contradiction text,
    -- The recipient, the model, or the report.
    target text not null,
    message_id text,
    job_kind text not null check (job_kind in ('report', 'correction', 'second_copy')),
    job_title text not null,
    job_month text not null,
    owner_email text not null,
    created_at text not null,
    changed_at text not null,
    primary key (job_id, number),
    constraint effects_done_has_evidence check (outcome <> 'done' or coalesce(evidence, '') <> ''),
    constraint effects_not_done_has_reason check ((outcome = 'not_done') = (not_done is not null)),
    constraint effects_doubt_is_email check (outcome <> 'in_doubt' or kind = 'email')
) strict;
create unique index effects_one_message_per_recipient on effects (job_id, target) where kind = 'email';
create unique index effects_one_withdrawal on effects (job_id) where kind = 'withdrawal';
-- In the order of the list, so that nothing else is read for it, and an empty list costs nothing.
create index effects_open on effects (changed_at, job_id, number) where outcome in ('in_flight', 'in_doubt', 'unconfirmed');
create index effects_by_time on effects (changed_at, job_id, number);
create index effects_by_message_id on effects (message_id) where message_id is not null;

-- Every attempt at an effect, on record before it begins. `evidence` is what the attempt itself has seen, word for word; what a
-- probe or a person has found out later stands beside it.
create table attempts (
    job_id blob not null,
    number integer not null,
    attempt integer not null,
    epoch integer not null,
    outcome text not null check (outcome in ('in_flight', 'in_doubt', 'done', 'not_done', 'unconfirmed')),
    evidence text,
    -- Of an attempt at an e-mail (RFC 3461): random, on record before the first byte, and shown to nobody, so that a delivery
    -- report which names it cannot have been made up.
    envelope_id blob,
    began_at text not null,
    -- When the last byte of an e-mail was about to go out: from then on it may have been accepted.
    in_doubt_at text,
    ended_at text,
    settled_at text,
    settled_by text,
    primary key (job_id, number, attempt),
    foreign key (job_id, number) references effects (job_id, number),
    constraint attempts_settled_whole check ((settled_at is null) = (settled_by is null))
) strict;
-- The database itself refuses a silent duplicate: one live attempt for an effect.
create unique index attempts_one_live on attempts (job_id, number)
    where outcome in ('in_flight', 'in_doubt', 'unconfirmed', 'done');

-- Rendered once, before the first attempt; only these bytes are ever sent. A second copy has the bytes of the first message, and
-- with them its Message-ID.
create table messages (
    job_id blob not null,
    number integer not null,
    sender text not null,
    recipient text not null,
    message_id text not null,
    sha256 blob not null,
    bytes blob not null,
    created_at text not null,
    primary key (job_id, number),
    foreign key (job_id, number) references effects (job_id, number)
) strict;

-- Saved once. A report that was withdrawn stays, with who has withdrawn it and why.
create table reports (
    id blob primary key not null,
    job_id blob not null unique references jobs (id),
    title text not null,
    markdown text not null,
    html text not null,
    -- How it was made, as JSON.
    provenance text not null,
    created_at text not null,
    withdrawn_at text,
    withdrawn_by text,
    withdrawn_why text
) strict;

-- What has happened to a job, in words. `effect` is the number of the effect that an entry is about; those entries outlive the
-- deletion of their job as well.
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

-- What happens after a job has ended.

-- One look at one place (an archive, a log, a mailbox) for one unconfirmed e-mail. `round` counts the looks in the schedule.
-- The row is there before the look, so that no two workers look at the same time; `result` is null until it has ended.
create table probes (
    job_id blob not null,
    number integer not null,
    round integer not null,
    place text not null,
    began_at text not null,
    ended_at text,
    -- A hint is worth a person's while and proves nothing.
    result text check (result in ('found', 'hint', 'nothing', 'failed')),
    evidence text,
    primary key (job_id, number, round, place),
    foreign key (job_id, number) references effects (job_id, number),
    constraint probes_end_has_result check ((ended_at is null) = (result is null) and (result is null) = (evidence is null))
) strict;

-- What people decided about an effect: who, when, what they saw or why.
create table decisions (
    id integer primary key,
    job_id blob not null,
    number integer not null,
    at text not null,
    by_email text not null,
    decision text not null
        check (decision in ('accepted', 'not_accepted', 'send_again', 'account_now', 'withdraw', 'delete')),
    reason text not null check (reason <> ''),
    foreign key (job_id, number) references effects (job_id, number)
) strict;
create index decisions_of_effect on decisions (job_id, number, id);

-- The history of effects is only ever added to. What is older than the horizon, and whose job is deleted, may go: the horizon
-- follows the settings, and nothing else deletes.
create table horizon (
    id integer primary key check (id = 1),
    keep_from text not null
) strict;
insert into horizon values (1, '');

-- These fire after the row's own constraints, which therefore speak first.
create trigger effects_stay after delete on effects
    when old.changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id) begin
    select raise(abort, 'effects are never deleted');
end;
create trigger effects_intent_stays
    after update of job_id, number, kind, target, message_id, job_kind, job_title, job_month, owner_email, created_at on effects begin
    select raise(abort, 'the intent of an effect never changes');
end;
-- What was found out about an effect never changes; what contradicts a person's word is added beside it, once.
create trigger effects_done_stay
    after update of outcome, not_done, unconfirmed, attempts, epoch, via, evidence, attested, changed_at on effects
    when old.outcome = 'done' begin
    select raise(abort, 'an effect that is done never changes');
end;
create trigger effects_contradiction_stays after update of contradiction on effects
    when old.contradiction is not null and new.contradiction is not old.contradiction begin
    select raise(abort, 'a contradiction stays');
end;
create trigger attempts_stay after delete on attempts
    when exists (select 1 from effects where job_id = old.job_id and number = old.number
                 and (changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id))) begin
    select raise(abort, 'attempts are never deleted');
end;
create trigger attempts_settled_stay after update on attempts when old.outcome in ('done', 'not_done') begin
    select raise(abort, 'an attempt that is settled never changes');
end;
create trigger history_of_effects_stays after delete on history
    when old.effect is not null
     and exists (select 1 from effects where job_id = old.job_id and number = old.effect
                 and (changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id))) begin
    select raise(abort, 'entries about effects are never deleted');
end;
create trigger history_stays after update on history begin
    select raise(abort, 'the history never changes');
end;
create trigger probes_stay after delete on probes
    when exists (select 1 from effects where job_id = old.job_id and number = old.number
                 and (changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id))) begin
    select raise(abort, 'probes are never deleted');
end;
create trigger probes_ended_stay after update on probes when old.result is not null begin
    select raise(abort, 'a probe that has ended never changes');
end;
create trigger decisions_stay after delete on decisions
    when exists (select 1 from effects where job_id = old.job_id and number = old.number
                 and (changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id))) begin
    select raise(abort, 'decisions are never deleted');
end;
create trigger decisions_never_change after update on decisions begin
    select raise(abort, 'decisions never change');
end;

-- The database itself.

-- Copies that took the place of this database: a backup that was put back, a standby that had not everything.
create table restores (
    id integer primary key,
    -- When the copy was made; null where nobody knows.
    copied_at text,
    -- Null in a backup that nobody has opened: whoever opens it first sets aside what is open in it.
    restored_at text
) strict;

-- When the machine was started that leases and holds are timed on, as the clock had it that its processes agree on. One row, of the
-- latest start.
create table machine_start (
    boot blob primary key not null,
    started_at text not null
) strict;

-- The newest migration that a program must know to work with this database. A migration that only adds leaves it as it is, so
-- that programs of two versions work side by side while machines are brought up to date one after the other.
create table compatibility (
    id integer primary key check (id = 1),
    oldest_migration integer not null
) strict;
insert into compatibility values (1, 1);
