import { setImmediate as nextTurn } from 'node:timers/promises';
import { answersWithin } from '#lib/answers-within.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { createFairPermits } from '#lib/fair-permits.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import { createSerializer } from '#lib/serialize.ts';
import { type CompiledFlag, type CompiledSegment, type FlagLookup, compileConditions, compileFlag } from './compile.ts';
import { type Condition, parseDefinition } from './definition.ts';
import { type LoadedEnvironment, type LoadedProject, loadProject, versionsOf } from './loading.ts';

/** The flags of an environment, compiled. It never changes: a change makes a new one. */
export interface FlagSet extends FlagLookup {
  readonly projectId: string;
  readonly environment: string;
  /** Null: the project has no flags yet. */
  readonly environmentId: string | null;
  /** Rises with each change that concerns the environment. */
  readonly version: number;
  /** The same in all processes. */
  readonly etag: string;
  /** Estimated memory, without that of the segments. */
  readonly bytes: number;
}

/** A project, and the party with whose other projects it shares memory. */
export interface FlagOwner {
  readonly id: string;
  readonly org_id: string;
}

export interface FlagSets {
  /**
   * The present flags of an environment; null: there is none of that name. While PostgreSQL is away, the last known.
   * @throws what loading throws when none are known; `overloaded`
   */
  readonly get: (owner: FlagOwner, environment: string) => FlagSet | Promise<FlagSet | null>;
  /** As `get`, asking PostgreSQL first: for those who have just changed something. */
  readonly getPresent: (owner: FlagOwner, environment: string) => Promise<FlagSet | null>;
  /** Flags of a project were changed. Resolves when this process has them. */
  readonly changed: (projectId: string) => Promise<void>;
  readonly onChange: (listener: Listener) => void;
  /** Whether changes may not be known here. */
  readonly isStale: () => boolean;
  /** A project whose changes somebody waits for. */
  readonly keepFresh: (projectId: string) => () => void;
  readonly stop: () => Promise<void>;
}

export interface FlagSetsOptions {
  readonly db: ControlDb;
  readonly log: Log;
  /** Whether messages of other processes arrive. */
  readonly isSubscribed: () => boolean;
  readonly perProject: number;
  readonly perProcess: number;
}

interface Project {
  readonly owner: FlagOwner;
  version: number;
  environments: Map<string, FlagSet>;
  segments: ReadonlyMap<string, CompiledSegment>;
  segmentBytes: number;
  bytes: number;
  /** When PostgreSQL was last asked, by this process's clock. */
  verifiedAt: number;
  usedAt: number;
}

/** A message that gets lost is made up for within that time, and the time that the change takes to load. */
const pollMs = 400;
/** Older knowledge is checked before it is served. */
const maxAgeMs = 900;
/** Projects that nobody asked for so long are not polled: they are checked when they are asked for. */
const activeMs = 10_000;
/** A flag in memory is some four times as large as its JSON, and the texts of its values for answers as large as it. */
const memoryFactor = 5;
const leastBytes = 1024;
const keyBytes = 100;
const sliceMs = 5;

/** Gives way to others each 5 ms: 10,000 flags take some 200 ms to compile, and segments of 10 MB as long. */
const createSlices = () => {
  let until = performance.now() + sliceMs;
  return async (): Promise<void> => {
    if (performance.now() < until) return;
    await nextTurn();
    until = performance.now() + sliceMs;
  };
};

const keysIn = async (lines: string): Promise<Set<string>> => {
  const keys = new Set<string>();
  const slice = createSlices();
  for (let at = 0; at < lines.length;) {
    const end = lines.indexOf('\n', at);
    keys.add(lines.slice(at, end === -1 ? lines.length : end));
    at = end === -1 ? lines.length : end + 1;
    if (keys.size % 1000 === 0) await slice();
  }
  return keys;
};

const compileSegment = async (conditions: string | null, keys: string | null): Promise<CompiledSegment> => ({
  keys: keys === null ? null : await keysIn(keys),
  conditions: compileConditions(conditions === null ? [] : (JSON.parse(conditions) as Condition[])),
});

const compileSegments = async (
  before: ReadonlyMap<string, CompiledSegment>,
  { segments, segmentKeys }: LoadedProject,
): Promise<ReadonlyMap<string, CompiledSegment>> => {
  const present = new Set(segmentKeys);
  const all = new Map([...before].filter(([key]) => present.has(key)));
  const slice = createSlices();
  for (const { key, conditions, keys } of segments) {
    all.set(key, await compileSegment(conditions, keys));
    await slice();
  }
  return all;
};

const flagBytes = new WeakMap<CompiledFlag, number>();

/** The flags of before with those that were changed since. */
const compileFlags = async (
  before: FlagSet | undefined,
  { flags, deleted, isWhole }: LoadedEnvironment,
): Promise<{ flags: Map<string, CompiledFlag>; bytes: number }> => {
  const all = new Map(isWhole || before === undefined ? [] : before.flags);
  const slice = createSlices();
  for (const key of deleted) all.delete(key);
  for (const { key, definition } of flags) {
    const compiled = compileFlag(key, parseDefinition(definition));
    flagBytes.set(compiled, leastBytes + memoryFactor * definition.length);
    all.set(key, compiled);
    await slice();
  }
  let bytes = leastBytes;
  for (const flag of all.values()) bytes += flagBytes.get(flag) ?? leastBytes;
  return { flags: all, bytes };
};

const setOf = async (
  projectId: string,
  before: FlagSet | undefined,
  loaded: LoadedEnvironment,
  segments: ReadonlyMap<string, CompiledSegment>,
): Promise<FlagSet> => {
  const { name: environment, id: environmentId, version } = loaded;
  if (before?.version === version && before.environmentId === environmentId && !loaded.isWhole)
    return before.segments === segments ? before : { ...before, segments };
  const { flags, bytes } = await compileFlags(before, loaded);
  const etag = environmentId === null ? 'none' : `${environmentId.slice(-12)}-${version}`;
  return { projectId, environment, environmentId, version, etag, flags, segments, bytes };
};

const busy = (): ServiceError =>
  new ServiceError('overloaded', 'This process is loading too many flags just now.', {
    headers: { 'Retry-After': '1' },
  });

const tooLarge = (): ServiceError =>
  new ServiceError('overloaded', 'The flags of this environment take more memory than a project may have.', {
    hint: 'PLINTH_FLAG_CACHE_PER_PROJECT bounds it. Delete flags, or large segments.',
    headers: { 'Retry-After': '60' },
  });

/** The flags in memory, and which of them make room for others. */
class Memory {
  readonly #options: FlagSetsOptions;
  readonly #projects = new Map<string, Project>();
  #bytes = 0;

  constructor(options: FlagSetsOptions) {
    this.#options = options;
  }

  find(projectId: string): Project | undefined {
    return this.#projects.get(projectId);
  }

  all(): Iterable<Project> {
    return this.#projects.values();
  }

  /** @throws {ServiceError} `overloaded` */
  put(project: Project, latest: string | null): void {
    const { perProject, perProcess } = this.#options;
    this.drop(project.owner.id);
    for (const name of project.environments.keys()) {
      if (this.#count(project) <= perProject) break;
      if (name !== latest) project.environments.delete(name);
    }
    if (project.bytes > perProject) throw tooLarge();
    while (this.#bytes + project.bytes > perProcess && this.#projects.size > 0) this.#makeRoom();
    this.#projects.set(project.owner.id, project);
    this.#bytes += project.bytes;
  }

  drop(projectId: string): void {
    const present = this.#projects.get(projectId);
    if (present === undefined) return;
    this.#projects.delete(projectId);
    this.#bytes -= present.bytes;
  }

  #count(project: Project): number {
    project.bytes = project.segmentBytes;
    for (const { bytes } of project.environments.values()) project.bytes += bytes;
    return project.bytes;
  }

  /** An organization with much more than others makes room first, so that nobody can drive out everybody else. */
  #makeRoom(): void {
    const held = new Map<string, number>();
    for (const { owner, bytes } of this.#projects.values())
      held.set(owner.org_id, (held.get(owner.org_id) ?? 0) + bytes);
    const [greedy = '', most = 0] = [...held].toSorted(([, a], [, b]) => b - a)[0] ?? [];
    const isGreedy = most > this.#options.perProcess / 8;
    const candidates = [...this.#projects.values()].filter(({ owner }) => !isGreedy || owner.org_id === greedy);
    const [oldest] = candidates.toSorted((a, b) => a.usedAt - b.usedAt);
    if (oldest !== undefined) this.drop(oldest.owner.id);
  }
}

const emptyProject = (owner: FlagOwner): Project => ({
  owner,
  version: 0,
  environments: new Map(),
  segments: new Map(),
  segmentBytes: 0,
  bytes: 0,
  verifiedAt: 0,
  usedAt: performance.now(),
});

const idsOf = ({ environments }: Project): Map<string, string | null> =>
  new Map([...environments].map(([name, { environmentId }]) => [name, environmentId]));

const compileProject = async (before: Project, loaded: LoadedProject, at: number): Promise<Project> => {
  const isSame = loaded.segments.length === 0 && loaded.segmentKeys.length === before.segments.size;
  const segments = isSame ? before.segments : await compileSegments(before.segments, loaded);
  const environments = new Map<string, FlagSet>();
  for (const one of loaded.environments)
    environments.set(one.name, await setOf(before.owner.id, before.environments.get(one.name), one, segments));
  let segmentBytes = 0;
  for (const { keys } of segments.values()) segmentBytes += leastBytes + (keys?.size ?? 0) * keyBytes;
  return { ...before, version: loaded.version, segments, segmentBytes, environments, verifiedAt: at };
};

type Listener = (set: FlagSet) => void;

const notify = (listeners: Iterable<Listener>, before: Project, now: Project): void => {
  for (const [name, set] of now.environments) {
    const earlier = before.environments.get(name);
    if (earlier === undefined || earlier.etag === set.etag) continue;
    for (const listener of listeners) listener(set);
  }
};

const usualPermits = { total: 4, each: 1, maxWaiting: 1000, waitMs: 10_000, refusal: busy } as const;

class Sets implements FlagSets {
  readonly #options: FlagSetsOptions;
  readonly #memory: Memory;
  readonly #serialize = createSerializer();
  readonly #permits = createFairPermits(usualPermits);
  readonly #listeners = new Set<Listener>();
  readonly #awaited = new Map<string, number>();
  readonly #poller: Poller;
  #isFailing = false;

  constructor(options: FlagSetsOptions) {
    this.#options = options;
    this.#memory = new Memory(options);
    this.#poller = startPoller(() => this.#poll(), {
      everyMs: pollMs,
      onFailure: (error) => options.log.warn({ err: error }, 'the versions of flags could not be read'),
    });
  }

  get(owner: FlagOwner, environment: string): FlagSet | Promise<FlagSet | null> {
    const project = this.#memory.find(owner.id);
    const set = project?.environments.get(environment);
    if (project === undefined || set === undefined) return this.getPresent(owner, environment);
    const now = performance.now();
    project.usedAt = now;
    return this.#isFailing || now - project.verifiedAt < maxAgeMs ? set : this.#verified(project, environment);
  }

  async getPresent(owner: FlagOwner, environment: string): Promise<FlagSet | null> {
    return (await this.#syncInTurn(owner, environment)).environments.get(environment) ?? null;
  }

  async changed(projectId: string): Promise<void> {
    const project = this.#memory.find(projectId);
    if (project !== undefined) await this.#syncInTurn(project.owner, null);
  }

  onChange(listener: Listener): void {
    this.#listeners.add(listener);
  }

  isStale(): boolean {
    return this.#isFailing || !this.#options.isSubscribed();
  }

  keepFresh(projectId: string): () => void {
    this.#awaited.set(projectId, (this.#awaited.get(projectId) ?? 0) + 1);
    return () => {
      const left = (this.#awaited.get(projectId) ?? 1) - 1;
      if (left === 0) this.#awaited.delete(projectId);
      else this.#awaited.set(projectId, left);
    };
  }

  stop(): Promise<void> {
    return this.#poller.stop();
  }

  #syncInTurn(owner: FlagOwner, more: string | null): Promise<Project> {
    return this.#serialize(owner.id, () => this.#sync(owner, more));
  }

  /** Reads what was changed since, of all environments that are kept, and one more. */
  async #sync(owner: FlagOwner, more: string | null): Promise<Project> {
    const before = this.#memory.find(owner.id) ?? emptyProject(owner);
    await this.#permits.acquire(owner.org_id);
    try {
      const at = performance.now();
      const wanted = { since: before.version, known: idsOf(before), more };
      const now = await compileProject(before, await loadProject(this.#options.db, owner.id, wanted), at);
      now.usedAt = Math.max(before.usedAt, more === null ? 0 : at);
      this.#memory.put(now, more);
      this.#isFailing = false;
      notify(this.#listeners, before, now);
      return now;
    } finally {
      this.#permits.release(owner.org_id);
    }
  }

  #isActive({ owner, usedAt }: Project): boolean {
    return performance.now() - usedAt < activeMs || this.#awaited.has(owner.id);
  }

  async #poll(): Promise<void> {
    const now = performance.now();
    const active = [...this.#memory.all()].filter((project) => this.#isActive(project));
    // Projects with listeners are the last to make room: without their flags a change would not be noticed.
    for (const project of active) if (this.#awaited.has(project.owner.id)) project.usedAt = now;
    if (active.length > 0 || this.#isFailing) await this.#checkInTime(active);
  }

  async #checkInTime(projects: readonly Project[]): Promise<void> {
    const checking = this.#check(projects);
    checking.catch((error: unknown) =>
      this.#options.log.debug({ err: error }, 'the versions of flags could not be read'),
    );
    if (!(await answersWithin(checking, maxAgeMs))) this.#isFailing = true;
  }

  /** Asks for the versions of projects, and loads those that were changed. */
  async #check(projects: readonly Project[]): Promise<void> {
    const at = performance.now();
    const ids = projects.map(({ owner }) => owner.id);
    const versions = await versionsOf(this.#options.db, ids);
    this.#isFailing = false;
    const outdated: Project[] = [];
    for (const id of ids) {
      const present = this.#memory.find(id);
      if (present === undefined) continue;
      if ((versions.get(id) ?? 0) === present.version) present.verifiedAt = Math.max(present.verifiedAt, at);
      else outdated.push(present);
    }
    await Promise.all(outdated.map(({ owner }) => this.#syncInTurn(owner, null)));
  }

  async #verified(project: Project, environment: string): Promise<FlagSet | null> {
    await this.#checkInTime([project]);
    const present = this.#memory.find(project.owner.id)?.environments.get(environment);
    if (present !== undefined) return present;
    const last = project.environments.get(environment);
    return this.#isFailing && last !== undefined ? last : this.getPresent(project.owner, environment);
  }
}

/** The flags that a process serves, kept up to date by messages of others and by asking PostgreSQL for versions. */
export const createFlagSets = (options: FlagSetsOptions): FlagSets => new Sets(options);
