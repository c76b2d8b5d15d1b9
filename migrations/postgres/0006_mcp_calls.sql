-- Calls to MCP servers that documents are asked from: what was begun is on record before it begins.
create table mcp_calls (
    job_id uuid not null references jobs (id) on delete cascade,
    number bigint not null,
    epoch bigint not null,
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
    task_ended_at timestamptz,
    started_at timestamptz not null,
    ended_at timestamptz,
    primary key (job_id, number),
    constraint mcp_calls_ended check ((ended_at is not null) = (state <> 'running')),
    constraint mcp_calls_task check (task_id is not null or (task_status is null and task_ended_at is null))
);
create index mcp_calls_tasks on mcp_calls (job_id, number) where task_id is not null and task_ended_at is null;
