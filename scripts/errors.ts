/** Something that a person can mend: its message is one or two plain sentences and is printed without a stack. */
export class StartError extends Error {
  override readonly name = 'StartError';
  readonly exitCode: number;

  constructor(message: string, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Another program listens on the port that a process was to have; a different one may do. */
export class PortTaken extends StartError {
  readonly port: number;

  constructor(port: number) {
    super(`Port ${port} is taken.`);
    this.port = port;
  }
}

const noSpace = (where: string): StartError =>
  new StartError(
    `The disk that holds ${where} is full: free some space (300 MB are enough to begin) and run this again.`,
  );

/** The data folder cannot be used; `code` is that of the system error. */
export const notWritable = (where: string, code: string): StartError =>
  new StartError(
    `${where} cannot be written (${code}): make it so, or set DATA_DIR to a folder that this user may write.`,
  );

const isSystemError = (error: unknown): error is NodeJS.ErrnoException => error instanceof Error && 'code' in error;

/** Maps a full disk, a read-only folder and the like to a plain sentence; `null` when the error is a bug of ours. */
export const explain = (error: unknown): StartError | null => {
  if (error instanceof StartError) return error;
  if (!isSystemError(error)) return null;
  const where = error.path ?? 'the data folder';
  if (error.code === 'ENOSPC' || error.code === 'EDQUOT') return noSpace(where);
  if (error.code === 'EROFS' || error.code === 'EACCES' || error.code === 'EPERM')
    return notWritable(where, error.code);
  return null;
};

/** The same for a program that we ran: what it wrote before it failed may name a full disk. */
export const explainOutput = (output: string, where: string): StartError | null =>
  /No space left on device|Disk quota exceeded/.test(output) ? noSpace(where) : null;
