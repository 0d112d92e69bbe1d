import { ServiceError } from '#lib/errors.ts';

/**
 * Runs few pieces of work at a time, one of each project, by fair queueing: a project with a long queue waits for
 * itself, and another one for at most one piece of work of each project. Work without a project is a project of its
 * own.
 * @throws {ServiceError} `queue_full` when too much waits, or when its turn did not come in time
 */
export type CompileLine = <T>(projectId: string | undefined, work: () => Promise<T>) => Promise<T>;

export interface CompileLineBounds {
  /** The bound of one project, running compilations included. */
  readonly ofProject: number;
  /** The bound of all projects together. */
  readonly ofAll: number;
  /** A compilation that waits longer is refused: its caller has likely left. */
  readonly waitMs: number;
  /** Pieces of work, of different projects, that go on at the same time; 1 unless set. */
  readonly atOnce?: number;
}

/** A source can have 1 MB, and compiling it take 10 s of processor time. */
export const usualBounds: CompileLineBounds = { ofProject: 64, ofAll: 256, waitMs: 30_000 };

interface Entry {
  readonly begin: () => Promise<void>;
  readonly refuse: (error: ServiceError) => void;
}

const tooMany = (message: string): ServiceError =>
  new ServiceError('queue_full', message, {
    hint: 'Nothing was deployed. Try again when fewer deploys wait.',
    headers: { 'Retry-After': '5' },
  });

const ofProjectFull = (): ServiceError => tooMany('Too many deploys of this project wait to be compiled.');
const ofAllFull = (): ServiceError => tooMany('Too many deploys wait to be compiled.');
const tookTooLong = (): ServiceError => tooMany('The deploy waited too long to be compiled.');

/** The waiting compilations by project; the first project in it is the next one. */
type Waiting = Map<string, Entry[]>;

const oldestOf = (waiting: Waiting): Entry[] =>
  [...waiting.values()].reduce((longest, line) => (line.length > longest.length ? line : longest), []);

const leave = (waiting: Waiting, name: string, entry: Entry): void => {
  const left = (waiting.get(name) ?? []).filter((other) => other !== entry);
  if (left.length === 0) waiting.delete(name);
  else waiting.set(name, left);
};

interface Next {
  readonly name: string;
  readonly entry: Entry;
}

const takeNext = (waiting: Waiting, running: ReadonlySet<string>): Next | undefined => {
  for (const [name, [entry, ...others]] of waiting) {
    if (running.has(name)) continue;
    waiting.delete(name);
    if (others.length > 0) waiting.set(name, others);
    if (entry) return { name, entry };
  }
  return undefined;
};

export const createCompileLine = ({
  ofProject,
  ofAll,
  waitMs,
  atOnce = 1,
}: CompileLineBounds = usualBounds): CompileLine => {
  const waiting: Waiting = new Map();
  const running = new Set<string>();

  /** Makes room for one more of a project; a full queue drops the last of the project with the most entries. */
  const admit = (name: string): void => {
    const own = waiting.get(name)?.length ?? 0;
    if (own + (running.has(name) ? 1 : 0) >= ofProject) throw ofProjectFull();
    const all = [...waiting.values()].reduce((sum, line) => sum + line.length, running.size);
    if (all < ofAll) return;
    const longest = oldestOf(waiting);
    if (longest.length <= own + 1) throw ofAllFull();
    longest.at(-1)?.refuse(ofAllFull());
  };

  /** Goes on until nothing waits, or only work of projects that run already. */
  const runAll = async (): Promise<void> => {
    for (let next = takeNext(waiting, running); next; next = takeNext(waiting, running)) {
      running.add(next.name);
      await next.entry.begin();
      running.delete(next.name);
    }
  };

  const wait = <T>(name: string, work: () => Promise<T>): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      const entry: Entry = {
        begin: async () => {
          clearTimeout(timer);
          await work().then(resolve, reject);
        },
        refuse: (error) => {
          clearTimeout(timer);
          leave(waiting, name, entry);
          reject(error);
        },
      };
      const timer = setTimeout(() => entry.refuse(tookTooLong()), waitMs);
      waiting.set(name, [...(waiting.get(name) ?? []), entry]);
    });

  let unnamed = 0;
  return async (projectId, work) => {
    const name = projectId ?? `work ${(unnamed += 1)}`;
    admit(name);
    const done = wait(name, work);
    if (running.size < atOnce) void runAll();
    return done;
  };
};
