import { spawn } from 'node:child_process';

/** Runs a program in a pseudo-terminal, which Node has none of. */
const program = `
import fcntl, json, os, pty, select, struct, sys, termios, time
spec = json.load(sys.stdin)
pid, fd = pty.fork()
if pid == 0:
    os.chdir(spec["cwd"])
    os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, spec["columns"], 0, 0))
output, steps, seen = b"", list(spec["steps"]), 0
end = time.time() + spec["seconds"]
while time.time() < end:
    if not select.select([fd], [], [], 0.2)[0]:
        continue
    try:
        piece = os.read(fd, 65536)
    except OSError:
        break
    if not piece:
        break
    output += piece
    while steps and steps[0]["expect"].encode() in output[seen:]:
        step = steps.pop(0)
        seen = output.index(step["expect"].encode(), seen) + len(step["expect"].encode())
        time.sleep(0.3)
        os.write(fd, step["send"].encode())
else:
    os.kill(pid, 9)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps({"code": code, "output": output.decode("utf-8", "replace"), "left": len(steps)}))
`;

export interface TerminalSpec {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly columns?: number;
  /** Keys that are typed once a text has appeared. */
  readonly steps?: readonly { readonly expect: string; readonly send: string }[];
}

export interface TerminalEnd {
  readonly code: number;
  /** Everything that the person saw. */
  readonly output: string;
  /** Steps whose text never appeared. */
  readonly left: number;
}

const seconds = 120;

export const inTerminal = ({ columns = 80, steps = [], ...spec }: TerminalSpec): Promise<TerminalEnd> =>
  new Promise((resolve, reject) => {
    const child = spawn('python3', ['-c', program], { stdio: ['pipe', 'pipe', 'inherit'] });
    let text = '';
    child.stdout.on('data', (piece: Buffer) => {
      text += piece.toString();
    });
    child.on('error', reject);
    child.on('close', () => {
      if (text === '') reject(new Error('the terminal answered nothing'));
      else resolve(JSON.parse(text) as TerminalEnd);
    });
    child.stdin.end(JSON.stringify({ ...spec, columns, steps, seconds }));
  });
