import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { GuestFile } from './guest.ts';
import { seccompFd } from './spawn.ts';

export interface StrictTools {
  readonly bwrap: string;
  /** Minor version of bubblewrap 0.x. */
  readonly version: number;
  readonly prlimit: string;
  /** Gives each guest a user id of its own; null when we are not root and cannot. */
  readonly setpriv: string | null;
}

const workspaceBytes = 64 * 1024 * 1024;
/** User ids that systemd's table of ranges gives to nobody. */
const firstUid = 60_600;
const uidCount = 448;
/** Slots of one worker that are sure to differ; workers started one after the other get blocks side by side. */
const uidBlock = 64;

/** Everything in front of the guest's own command line. */
export function strictArguments(tools: StrictTools, files: readonly GuestFile[], slot: number): string[] {
  if (tools.setpriv === null) return bubblewrap(tools, files);
  const uid = firstUid + ((process.pid * uidBlock + slot) % uidCount);
  const drop = [tools.setpriv, `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--'];
  return [...openFolders(tools, files), ...drop, ...bubblewrap(tools, files)];
}

function bubblewrap({ bwrap, version }: StrictTools, files: readonly GuestFile[]): string[] {
  // Before 0.7 a tmpfs cannot be given a size: then the guest has no place to write at all.
  const workspace = version >= 7 ? ['--size', String(workspaceBytes), '--tmpfs', '/tmp'] : ['--dir', '/tmp'];
  const ownFiles = files.filter((file) => !isSeen(file));
  return [
    bwrap,
    ...words('--unshare-user --unshare-net --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try'),
    ...words('--die-with-parent --new-session --cap-drop ALL --uid 1000 --gid 1000 --hostname function'),
    // RLIMIT_NPROC counts per user namespace: with namespaces of its own a guest would be free of it.
    ...(version >= 8 ? ['--disable-userns'] : []),
    '--seccomp',
    String(seccompFd),
    ...words('--ro-bind /usr /usr'),
    ...hiddenOfUsr(files).flatMap(emptied),
    ...systemFolders(),
    // Some settings belong to namespaces, and these would be the guest's own to set.
    ...words('--proc /proc --ro-bind /proc/sys /proc/sys --dev /dev'),
    ...hiddenOfProc().flatMap((file) => ['--ro-bind', '/dev/null', file]),
    // Bubblewrap itself, with the guest's user id: what one run writes into its memory, the next could read.
    ...emptied('/proc/1'),
    ...workspace,
    ...words('--chdir /tmp'),
    ...ownFiles.flatMap(({ source, target }) => ['--ro-bind', source, target]),
    // Both are tmpfs without a size: a guest that could write there could fill the host's memory.
    ...words('--remount-ro /dev --remount-ro / --'),
  ];
}

const words = (text: string): string[] => text.split(' ');

/** Part of the system, and where it is on the host: it need not be bound once more. */
const isSeen = ({ source, target }: GuestFile): boolean =>
  source === target && /^\/(?:usr|bin|sbin|lib|lib64)\//.test(source);

const unneededOfUsr = (): string[] =>
  readdirSync('/usr', { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !neededOfUsr.test(entry.name))
    .map(({ name }) => `/usr/${name}`);

/**
 * The parts of /usr that system programs need. Everything else was put there by somebody: /usr/src/app is where many
 * keep their application.
 */
const neededOfUsr = /^(?:bin|sbin|lib\w*|share|include)$/;

let foldersOfUsr: readonly string[] | undefined;

/**
 * Nothing else of /usr is of use to a guest, unless the guest's own language is there. The folders are read once: on a
 * busy machine that held up the event loop by as much as 47 ms for each process.
 */
const hiddenOfUsr = (files: readonly GuestFile[]): string[] =>
  (foldersOfUsr ??= unneededOfUsr()).filter(
    (folder) => !files.some((file) => isSeen(file) && file.source.startsWith(`${folder}/`)),
  );

const emptied = (folder: string): string[] => ['--tmpfs', folder, '--remount-ro', folder];

/** Whether guests see what is in a folder of the host. */
export function isShown(folder: string, files: readonly GuestFile[]): boolean {
  const path = existsSync(folder) ? realpathSync(folder) : resolve(folder);
  const isBelow = (above: string): boolean => `${path}/`.startsWith(`${above}/`);
  if (path !== '/usr' && isBelow('/usr')) return !hiddenOfUsr(files).some(isBelow);
  return ['/usr', '/bin', '/sbin', '/lib', '/lib64'].some(isBelow);
}

/** Files in which the kernel reveals the machine, its keys and its memory to everyone. */
const hiddenOfProc = (): string[] =>
  ['cmdline', 'config.gz', 'interrupts', 'iomem', 'kallsyms', 'keys', 'key-users', 'kmsg', 'sched_debug', 'timer_list']
    .map((name) => `/proc/${name}`)
    .filter((path) => existsSync(path));

/** `/bin`, `/lib` and the like: links into /usr on most systems, folders of their own on some. */
function systemFolders(): string[] {
  return ['/bin', '/sbin', '/lib', '/lib64'].flatMap((folder) => {
    const kind = lstatSync(folder, { throwIfNoEntry: false });
    if (kind === undefined) return [];
    return kind.isSymbolicLink() ? ['--symlink', readlinkSync(folder), folder] : ['--ro-bind', folder, folder];
  });
}

/**
 * A checkout below /root or another private folder cannot be reached by the guest's user id. Then an outer bubblewrap,
 * still root and without namespaces of ids, lays an empty folder over the private one and puts back only what is
 * needed. Nothing of it is seen outside, and nothing stays behind.
 */
function openFolders({ bwrap }: StrictTools, files: readonly GuestFile[]): string[] {
  const needed = [bwrapFolder(bwrap), ...files.map(({ source }) => source)];
  const closed = new Set(needed.flatMap((path) => closedFolder(path) ?? []));
  if (closed.size === 0) return [];
  const covered = needed.filter((path) => [...closed].some((folder) => path.startsWith(`${folder}/`)));
  return [
    bwrap,
    ...words('--die-with-parent --dev-bind / /'),
    ...[...closed].flatMap((folder) => ['--tmpfs', folder]),
    ...foldersAbove(covered).flatMap((folder) => ['--perms', '0755', '--dir', folder]),
    ...covered.flatMap((path) => ['--ro-bind', path, path]),
    '--',
  ];
}

/** Every folder on the way to the paths, the outermost first. */
function foldersAbove(paths: readonly string[]): string[] {
  const folders = new Set<string>();
  for (const path of paths) {
    for (let folder = dirname(path); folder !== '/'; folder = dirname(folder)) folders.add(folder);
  }
  return [...folders].sort();
}

/** An unpacked bubblewrap stands beside its libraries: all of its package is needed. */
const bwrapFolder = (bwrap: string): string => bwrap.replace(/\/usr\/bin\/[^/]+$/, '') || bwrap;

/** The outermost folder above a path that other users may not enter. */
function closedFolder(path: string): string | null {
  const parent = dirname(path);
  if (parent === path) return null;
  const above = closedFolder(parent);
  if (above !== null || parent === '/') return above;
  return (statSync(parent).mode & 0o001) === 0 ? parent : null;
}
