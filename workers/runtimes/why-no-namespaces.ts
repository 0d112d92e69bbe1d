import { existsSync, readFileSync } from 'node:fs';

/** One plain sentence for a person: what is in the way of namespaces on this machine, and the command that mends it. */
export function whyNoNamespaces(error: unknown): string {
  const cause = setting('kernel/apparmor_restrict_unprivileged_userns') === '1' ? 'apparmor' : firstClosedSetting();
  return `the kernel refuses namespaces (${refusal(error)}); ${mend(cause)}, or set SANDBOX=best-effort.`;
}

type Cause = 'apparmor' | 'unprivileged' | 'maximum' | 'container' | 'unknown';

function firstClosedSetting(): Cause {
  if (setting('kernel/unprivileged_userns_clone') === '0') return 'unprivileged';
  if (setting('user/max_user_namespaces') === '0') return 'maximum';
  return existsSync('/.dockerenv') || existsSync('/run/.containerenv') ? 'container' : 'unknown';
}

const mends: Record<Cause, string> = {
  apparmor: 'allow them with `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`',
  unprivileged: 'allow them with `sysctl -w kernel.unprivileged_userns_clone=1`',
  maximum: 'allow them with `sysctl -w user.max_user_namespaces=10000`',
  container:
    'start the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined`',
  unknown: 'run it as a user that may create them',
};

const mend = (cause: Cause): string => mends[cause];

function refusal(error: unknown): string {
  const text = (error as { stderr?: string }).stderr || String(error);
  return text.trim().split('\n').at(-1)?.slice(0, 200) ?? 'no reason given';
}

function setting(name: string): string | null {
  try {
    return readFileSync(`/proc/sys/${name}`, 'utf8').trim();
  } catch {
    return null;
  }
}
