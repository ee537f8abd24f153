// Requests to the server. Every answer that is not a success becomes an ApiFailure with the server's own sentence.
import { signal } from "@preact/signals";

import type { ErrorBody, SessionState } from "./api";

export class ApiFailure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly help: string | undefined,
  ) {
    super(message);
  }
}

/** Who is signed in; undefined until the server has said so. */
export const session = signal<SessionState | undefined>(undefined);

/** Longest wait for an answer. */
const ANSWER_MS_MAX = 30_000;

/** Answers with one of the statuses in `alsoGood` are answers too: `/health` says what is wrong with 503. */
export async function request<T>(method: string, path: string, body?: unknown, alsoGood: number[] = [], headers: Record<string, string> = {}): Promise<T> {
  const init: RequestInit = { method, headers, signal: AbortSignal.timeout(ANSWER_MS_MAX) };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...headers, "content-type": "application/json" };
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new ApiFailure(0, "unreachable", "the server does not answer", "is it running? this page tries again by itself");
  }
  if (response.status === 204) return undefined as T;
  const answer: unknown = await response.json().catch(() => undefined);
  if (response.ok || alsoGood.includes(response.status)) return answer as T;
  const error = (answer as ErrorBody | undefined)?.error;
  const isGone = response.status === 401 && path !== "/api/v1/session";
  if (isGone) session.value = { signed_in: false, read_only: false };
  throw new ApiFailure(response.status, error?.code ?? "unknown", error?.message ?? `the server answered ${response.status}`, error?.help ?? undefined);
}

export const get = <T>(path: string): Promise<T> => request<T>("GET", `/api/v1${path}`);
export const post = <T>(path: string, body: unknown = {}): Promise<T> => request<T>("POST", `/api/v1${path}`, body);
export const remove = (path: string): Promise<void> => request<void>("DELETE", `/api/v1${path}`);

export async function loadSession(): Promise<void> {
  session.value = await get<SessionState>("/session");
}

export async function signIn(proof: { code: string } | { token: string }): Promise<void> {
  session.value = await post<SessionState>("/session", proof);
}

export async function signOut(): Promise<void> {
  await remove("/session");
  session.value = { signed_in: false, read_only: false };
}

export const mayChange = (): boolean => session.value?.read_only === false;

/** A query string from fields; those without a value are left out. */
export function query(fields: Record<string, string | number | boolean | undefined>): string {
  const set = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined && value !== "") set.set(name, String(value));
  }
  const text = set.toString();
  return text === "" ? "" : `?${text}`;
}
