/** A file of the host and the place where the guest finds it. */
export interface GuestFile {
  readonly source: string;
  readonly target: string;
}

export interface GuestCommand {
  readonly program: GuestFile;
  readonly args: readonly (string | GuestFile)[];
  /** Files that the program opens by itself. They and those above are all that the guest sees beside /usr. */
  readonly files: readonly GuestFile[];
  readonly env: Readonly<Record<string, string>>;
  /** RLIMIT_DATA: the kernel's own ceiling, for what is faster than a watchdog. */
  readonly dataMib: number;
}

export interface SpawnCommand {
  readonly file: string;
  readonly args: readonly string[];
  /** The whole environment: nothing of the platform's own is in it. */
  readonly env: Readonly<Record<string, string>>;
  /** The filter of system calls, which `spawnCommand` hands over on a descriptor of its own. */
  readonly seccomp?: Buffer;
}
