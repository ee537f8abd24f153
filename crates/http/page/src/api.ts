// Made from the OpenAPI document by `cargo xtask page`. Do not edit.

export type BulkBody = {
  dry_run?: boolean;
  filter?: (JobFilterFields | null);
  names?: (string)[] | null;
  params?: Record<string, unknown>;
};

export type BulkDone = {
  dry_run: boolean;
  results: (BulkResult)[];
  total: number;
};

export type BulkResult = {
  error?: (ErrorShape | null);
  job: string;
  result: string;
  run?: string | null;
};

export type CallItem = {
  index: number;
  item?: string;
  run: string;
  status: string;
};

export type CheckBody = {
  name?: string | null;
  text: string;
};

export type Checked = {
  dues: (PreviewDue)[];
  job?: string | null;
  ok: boolean;
  problems: (ProblemItem)[];
  schedules: (CheckedSchedule)[];
  steps: (string)[];
};

export type CheckedSchedule = {
  action: string;
  description: string;
  timezone: string;
};

export type ChildItem = {
  executor?: string | null;
  id: string;
  job: string;
  link: string;
  share?: number | null;
  status: string;
};

export type CodeBody = {
  read_only?: boolean;
};

export type ConflictItem = {
  by_params: boolean;
  job: string;
  other: string;
  other_touches: string;
  touches: string;
};

export type ConflictPage = {
  conflicts: (ConflictItem)[];
  cut: boolean;
  total: number;
};

export type Definition = {
  etag?: string | null;
  revision: number;
  source: string;
  text?: string | null;
  writable: boolean;
};

export type DefinitionBody = {
  text: string;
};

export type DefinitionDiff = {
  changes: (MeaningChange)[];
  from: number;
  job: string;
  to: number;
};

export type DefinitionRemoved = {
  job: string;
  source: string;
};

export type DefinitionSaved = {
  etag: string;
  job: string;
  problems: (ProblemItem)[];
  revision: number;
  source: string;
};

export type DiskUse = {
  database_bytes: number;
  database_bytes_max: number;
  database_bytes_used: number;
  days_max?: number | null;
  log_bytes: number;
  log_bytes_max: number;
  logs_removed: number;
  measured_at_ms?: (i64 | null);
  runs_forgotten: number;
  runs_max?: number | null;
};

export type Done = {
  result: string;
  run?: string | null;
};

export type DueItem = {
  due: string;
  due_ms: i64;
  job: string;
};

export type DuePage = {
  dues: (RecordedDueItem)[];
  from: string;
  from_ms: i64;
  next_offset?: number | null;
  recorded: number;
  to: string;
  to_ms: i64;
};

export type ErrorBody = {
  error: ErrorShape;
};

export type ErrorShape = {
  code: string;
  help?: string | null;
  message: string;
  problems?: (ProblemItem)[];
};

export type ExecutorItem = {
  address: string;
  dialect: string;
  labels?: Record<string, string>;
  silent_ms?: (i64 | null);
  since?: string | null;
  since_ms?: (i64 | null);
};

export type ExecutorPage = {
  groups: (GroupItem)[];
};

export type FootprintItem = {
  capacity: Record<string, number>;
  claims: (string)[];
  on_conflict: string;
  ordered: boolean;
  reads: (string)[];
  writes: (string)[];
};

export type Forecast = {
  from: string;
  from_ms: i64;
  runs: (number)[];
  step_ms: i64;
};

export type Graph = {
  edges: (GraphEdge)[];
  job: string;
  nodes: (GraphNode)[];
  ranks: number;
  revision: number;
  width: number;
};

export type GraphEdge = {
  from: number;
  to: number;
};

export type GraphNode = {
  name: string;
  order: number;
  rank: number;
};

export type GroupItem = {
  executors: (ExecutorItem)[];
  name: string;
  typed: boolean;
};

export type HealthItem = {
  batch_age_ms?: (i64 | null);
  disk: DiskUse;
  executor_age_ms?: (i64 | null);
  loop_age_ms: i64;
  ready: boolean;
  status: string;
  store_age_ms: i64;
  store_ok: boolean;
  uptime_ms: i64;
  version: string;
};

export type HistoryItem = ((RunItem & {
  kind: "run";
}) | (SkipItem & {
  kind: "skip";
}));

export type HistoryPage = {
  history: (HistoryItem)[];
  next?: string | null;
};

export type JobDetail = (JobItem & {
  footprint?: (FootprintItem | null);
  history: string;
  next_dues: (string)[];
  next_dues_ms: (i64)[];
  params: (ParamItem)[];
  policy?: (PolicyItem | null);
  problems: (ProblemItem)[];
  steps: (JobStepItem)[];
  timeout_ms?: (i64 | null);
});

export type JobFilterFields = {
  executor?: string | null;
  label?: string | null;
  last?: string | null;
  problem?: boolean | null;
  state?: string | null;
  text?: string | null;
};

export type JobItem = {
  description?: string;
  executor_number?: number | null;
  labels?: Record<string, string>;
  last_run?: (LastRunItem | null);
  name: string;
  next_due?: string | null;
  next_due_ms?: (i64 | null);
  paused_at?: string | null;
  paused_at_ms?: (i64 | null);
  removed_at?: string | null;
  removed_at_ms?: (i64 | null);
  revision: number;
  schedule_over?: boolean;
  schedules: (ScheduleItem)[];
  source?: string;
  state: string;
  watermark?: string | null;
  watermark_ms?: (i64 | null);
};

export type JobPage = {
  as_of: string;
  as_of_ms: i64;
  jobs: (JobItem)[];
  next?: string | null;
  offset: number;
  total: number;
};

export type JobStepItem = {
  depends: (string)[];
  kind: string;
  name: string;
  retries: number;
  timeout_ms?: (i64 | null);
};

export type LastRunItem = {
  due: string;
  due_ms: i64;
  ended_at?: string | null;
  ended_at_ms?: (i64 | null);
  id: string;
  late_ms?: (i64 | null);
  status: string;
};

export type LinePage = {
  attempt: number;
  bytes: number;
  ended: boolean;
  from: number;
  lines: (string)[];
  total: number;
};

export type LogItem = {
  attempt: number;
  bytes: number;
  share?: number | null;
  step: string;
  step_no: number;
};

export type LogPage = {
  ended: boolean;
  logs: (LogItem)[];
  run: string;
  status: string;
};

export type LoginCode = {
  code: string;
  expires_in_ms: i64;
};

export type MatchPage = {
  lines: (number)[];
  next?: number | null;
  total: number;
};

export type MeaningChange = {
  after?: string | null;
  before?: string | null;
  path: string;
};

export type ParamItem = {
  default: string;
  name?: string | null;
  required: boolean;
};

export type Planned = {
  changes: (MeaningChange)[];
  conflicts_gained: (ConflictItem)[];
  conflicts_lost: (ConflictItem)[];
  dues_after: (PreviewDue)[];
  dues_before: (PreviewDue)[];
  exists: boolean;
  hours_after: (number)[];
  hours_before: (number)[];
  job?: string | null;
  ok: boolean;
  problems: (ProblemItem)[];
};

export type PolicyItem = {
  at_most_once: boolean;
  catchup_window_ms: i64;
  misfire: string;
  overlap: string;
  priority: number;
  skip_if_successful: boolean;
};

export type Preview = {
  description: string;
  dues: (PreviewDue)[];
  timezone: string;
};

export type PreviewDue = {
  due: string;
  due_ms: i64;
  local: string;
  note?: string | null;
};

export type ProblemItem = {
  code: string;
  column: number;
  file: string;
  help?: string | null;
  line: number;
  message: string;
  rendered: string;
  severity: string;
};

export type ProblemPage = {
  problems: (ProblemItem)[];
};

export type RecordedDueItem = {
  count: number;
  due: string;
  due_ms: i64;
  duration_ms?: (i64 | null);
  explanation?: string | null;
  job: string;
  late_ms?: (i64 | null);
  outcome: string;
  reason?: string | null;
  run?: string | null;
  status?: string | null;
};

export type Revisions = {
  job: string;
  revision: number;
  revisions: (number)[];
};

export type RunDetail = (RunItem & {
  children?: (ChildItem)[];
  steps: (StepItem)[];
});

export type RunItem = {
  addresses?: (string)[];
  attempt: number;
  due: string;
  due_ms: i64;
  duration_ms?: (i64 | null);
  ended: boolean;
  ended_at?: string | null;
  ended_at_ms?: (i64 | null);
  executor?: string | null;
  executor_number?: number | null;
  explanation: string;
  id: string;
  job: string;
  late_ms?: (i64 | null);
  params?: Record<string, string>;
  parent?: string | null;
  promised_at: string;
  promised_at_ms: i64;
  revision: number;
  share?: number | null;
  shares?: (ShareCounts | null);
  skip_reason?: string | null;
  started_at?: string | null;
  started_at_ms?: (i64 | null);
  status: string;
  trigger: string;
};

export type RunPage = {
  next?: string | null;
  runs: (RunItem)[];
};

export type ScheduleItem = {
  action: string;
  description: string;
  text: string;
  timezone: string;
};

export type SeatItem = {
  address: string;
  attempt: number;
  duration_ms?: (i64 | null);
  ended_at?: string | null;
  ended_at_ms?: (i64 | null);
  index: number;
  log_id: number;
  message?: string | null;
  ordered_at: string;
  ordered_at_ms: i64;
  status: string;
  total: number;
};

export type SessionItem = {
  agent: string;
  current: boolean;
  name: string;
  read_only: boolean;
  since: string;
  since_ms: i64;
  used: string;
  used_ms: i64;
};

export type SessionPage = {
  sessions: (SessionItem)[];
};

export type SessionState = {
  read_only: boolean;
  session?: string | null;
  signed_in: boolean;
};

export type ShareCounts = {
  failed: number;
  succeeded: number;
  total: number;
};

export type SignInBody = {
  code?: string | null;
  read_only?: boolean;
  token?: string | null;
};

export type SkipItem = {
  at: string;
  at_ms: i64;
  count: number;
  explanation: string;
  first_due: string;
  first_due_ms: i64;
  id: string;
  job: string;
  last_due: string;
  last_due_ms: i64;
  reason: string;
};

export type SkipPage = {
  next?: string | null;
  skips: (SkipItem)[];
};

export type Stats = {
  all: StatsItem;
  duration_bounds_ms: (i64)[];
  from: string;
  from_ms: i64;
  lateness_bounds_ms: (i64)[];
  step_ms: i64;
  steps: (StatsStep)[];
  to: string;
  to_ms: i64;
};

export type StatsItem = {
  durations: (number)[];
  lateness: (number)[];
  reasons: Record<string, number>;
  statuses: Record<string, number>;
};

export type StatsStep = (StatsItem & {
  at: string;
  at_ms: i64;
});

export type StepItem = {
  attempt: number;
  calls?: (CallItem)[];
  duration_ms?: (i64 | null);
  ended_at?: string | null;
  ended_at_ms?: (i64 | null);
  executors?: (SeatItem)[];
  exit_code?: number | null;
  lost: number;
  message?: string | null;
  name: string;
  output?: string | null;
  started_at?: string | null;
  started_at_ms?: (i64 | null);
  status: string;
};

export type TriggerBody = {
  addresses?: (string)[];
  params?: Record<string, unknown>;
  parent?: string | null;
};

export type Triggered = {
  job: string;
  run: string;
};

export type UpcomingPage = {
  from: string;
  from_ms: i64;
  to: string;
  to_ms: i64;
  upcoming: (DueItem)[];
};

export type WaitItem = {
  explanation: string;
  job: string;
  run: string;
  since?: string | null;
  since_ms?: (i64 | null);
  waits_for: WaitsFor;
};

export type WaitPage = {
  cut: boolean;
  waits: (WaitItem)[];
};

export type WaitsFor = {
  before: number;
  in_line: boolean;
  job?: string | null;
  key?: string | null;
  kind: string;
  run?: string | null;
  since?: string | null;
  since_ms?: (i64 | null);
  ticket: boolean;
  tries: number;
  wanted?: string | null;
};

export type Why = {
  executor?: string | null;
  explanation: string;
  holds?: (string)[];
  job: string;
  parent?: string | null;
  run: string;
  since?: string | null;
  since_ms?: (i64 | null);
  status: string;
  trigger: string;
  waits_for?: (WaitsFor | null);
};

export type WhyAt = {
  at: string;
  at_ms: i64;
  due_after?: string | null;
  due_after_ms?: (i64 | null);
  due_before?: string | null;
  due_before_ms?: (i64 | null);
  explanation: string;
  job: string;
  outcome: string;
  run?: (RunItem | null);
  skip?: (SkipItem | null);
};

export type i64 = number;
