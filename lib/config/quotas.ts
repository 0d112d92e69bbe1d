import { integer, mib, note } from './kinds.ts';

const mb = 1_000_000;
const gb = 1000 * mb;
const gib = 1024 * mib;
const max = Number.MAX_SAFE_INTEGER;

const stored = 'Payloads and results of ended jobs, logs and replaced versions of functions that a project of the';
const waiting = 'Payloads of waiting jobs that a project of the';

/** The quotas of the plans in the control database, in powers of ten. */
export const quotaSettings = {
  PLINTH_FUNCTIONS_FREE: note(integer(100, 1, 1_000_000), 'Functions that a project of the Free plan may have.'),
  PLINTH_FUNCTIONS_PRO: note(integer(1000, 1, 1_000_000), 'The same on the Pro plan; Enterprise has no limit.'),
  PLINTH_FLAGS_FREE: note(
    integer(10_000, 1, 10_000_000),
    'Feature flags of all environments that a project of the Free plan may have.',
  ),
  PLINTH_FLAGS_PRO: note(integer(100_000, 1, 10_000_000), 'The same on the Pro plan; Enterprise has no limit.'),
  PLINTH_FLAG_BYTES_FREE: note(
    integer(10 * mb, 1000, 100 * mb),
    'Bytes of feature flags and segments that a project of the Free plan may have.',
    'bytes',
  ),
  PLINTH_FLAG_BYTES_PRO: note(integer(25 * mb, 1000, 100 * mb), 'The same on the Pro plan.', 'bytes'),
  PLINTH_FLAG_BYTES_ENTERPRISE: note(integer(50 * mb, 1000, 100 * mb), 'The same on the Enterprise plan.', 'bytes'),
  PLINTH_CODE_BYTES: note(
    integer(1024 * 1024, 1000, 1024 * 1024),
    'Source code that one function may have; of several files of JavaScript, their bundle.',
    'bytes',
  ),
  PLINTH_FILES_BYTES: note(
    integer(10 * mb, 1000, 10 * mb),
    'The files that one function may have, before they are bundled.',
    'bytes',
  ),
  PLINTH_STORED_BYTES_FREE: note(
    integer(500 * mb, mb, max),
    `${stored} Free plan keeps; the oldest are deleted first.`,
    'bytes',
  ),
  PLINTH_STORED_BYTES_PRO: note(integer(10 * gb, mb, max), 'The same on the Pro plan.', 'bytes'),
  PLINTH_STORED_BYTES_ENTERPRISE: note(integer(100 * gb, mb, max), 'The same on the Enterprise plan.', 'bytes'),
  PLINTH_WAITING_BYTES_FREE: note(
    integer(100 * mb, 10_000, max),
    `${waiting} Free plan may have; more are refused as \`queue_full\`.`,
    'bytes',
  ),
  PLINTH_WAITING_BYTES_PRO: note(integer(gb, 10_000, max), 'The same on the Pro plan.', 'bytes'),
  PLINTH_WAITING_BYTES_ENTERPRISE: note(integer(10 * gb, 10_000, max), 'The same on the Enterprise plan.', 'bytes'),
  PLINTH_STORAGE_BYTES_FREE: note(
    integer(gib, 0, max),
    'All files together that a project of the Free plan may have.',
    'bytes',
  ),
  PLINTH_STORAGE_BYTES_PRO: note(
    integer(100 * gib, 0, max),
    'The same on the Pro plan; Enterprise has no limit.',
    'bytes',
  ),
  PLINTH_FILE_BYTES_FREE: note(integer(50 * mib, 0, max), 'One file of a project of the Free plan.', 'bytes'),
  PLINTH_FILE_BYTES_PRO: note(integer(5 * gib, 0, max), 'The same on the Pro plan.', 'bytes'),
  PLINTH_FILE_BYTES_ENTERPRISE: note(integer(50 * gib, 0, max), 'The same on the Enterprise plan.', 'bytes'),
};
