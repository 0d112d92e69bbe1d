import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { GuestCommand, GuestFile } from '../guest.ts';
import type { SandboxLevel } from '../runtime.ts';
import type { Interpreter } from '#domain/functions/python.ts';

/** Where systems keep the certificates that they trust; the guest finds them where Debian has them. */
const certificateFiles = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
];

/** The guest: the machine's own Python, and a few files of ours, each bound alone into `/app`. */
export function guestCommand({ program, folder }: Interpreter, level: SandboxLevel): GuestCommand {
  const ours = join(import.meta.dirname, 'guest');
  const guestFile = (name: string): GuestFile => ({ source: join(ours, name), target: `/app/guest/${name}` });
  const modules = readdirSync(ours).filter((name) => name.endsWith('.py'));
  const certificates = certificateFiles.find((file) => existsSync(file));
  return {
    program: { source: program, target: program },
    // No variables of the environment, no folders of users, nothing written beside the source.
    args: ['-I', '-S', '-B', guestFile('main.py'), ...(level === 'strict' ? ['namespace'] : [])],
    files: [
      ...modules.map(guestFile),
      ...(folder === null ? [] : [{ source: folder, target: folder }]),
      ...(certificates === undefined ? [] : [{ source: certificates, target: '/etc/ssl/certs/ca-certificates.crt' }]),
    ],
    env: { TZ: 'UTC', LANG: 'C.UTF-8', ...malloc },
    dataMib: interpreterMib + maxFunctionMib,
  };
}

/**
 * Each further arena would reserve 64 MiB of the address space by which a run's memory is limited. What lies in the
 * cache of a thread is not overwritten when it is freed (`overwrite_freed` in fence.py).
 */
const malloc = { MALLOC_ARENA_MAX: '1', GLIBC_TUNABLES: 'glibc.malloc.tcache_count=0' };

const interpreterMib = 256;
const maxFunctionMib = 1024;
