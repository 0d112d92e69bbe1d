import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ProcessRecord } from './process-identity.ts';

export interface GuardSettings {
  readonly lockFile: string;
  /** How long each stage may take to end by itself once the guard stops it. */
  readonly graceMs: number;
  /** Removed at the end; none when the data are to be kept. */
  readonly temporaryFolders?: readonly string[];
}

/** Our side of the dead-man guard: reports the running processes to it, and replaces it when it dies. */
export class Guard {
  readonly #settings: GuardSettings;
  #child: ChildProcess;
  #known: readonly ProcessRecord[] = [];
  #dismissed = false;

  constructor(settings: GuardSettings) {
    this.#settings = settings;
    this.#child = this.#spawn();
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Replaces what the guard knows. */
  notify(processes: readonly ProcessRecord[]): void {
    this.#known = processes;
    this.#write(JSON.stringify(processes));
  }

  /** Sends the guard home; resolves when it is gone. */
  async dismiss(): Promise<void> {
    this.#dismissed = true;
    const child = this.#child;
    const gone = child.exitCode !== null || child.signalCode !== null;
    const exit = new Promise<void>((resolve) => {
      child.once('exit', () => resolve());
    });
    child.ref();
    this.#write('bye');
    child.stdin?.end();
    if (!gone) await exit;
  }

  #write(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  #spawn(): ChildProcess {
    const { lockFile, graceMs, temporaryFolders = [] } = this.#settings;
    const program = path.join(import.meta.dirname, 'guard.mjs');
    const args = [program, lockFile, String(process.pid), String(graceMs), ...temporaryFolders];
    const child = spawn(process.execPath, args, { detached: true, cwd: '/', stdio: ['pipe', 'ignore', 'ignore'] });
    child.stdin.on('error', () => undefined);
    child.on('error', () => undefined);
    child.once('exit', () => void this.#replace());
    child.unref();
    return child;
  }

  async #replace(): Promise<void> {
    if (this.#dismissed) return;
    await delay(50, undefined, { ref: false });
    if (this.#dismissed) return;
    this.#child = this.#spawn();
    this.notify(this.#known);
  }
}
