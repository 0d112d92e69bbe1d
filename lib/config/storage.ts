import { z } from 'zod';
import { integer, note, onOff, oneOf, url } from './kinds.ts';

/** Settings of where the bytes of files lie. */
export const storageSettings = {
  PLINTH_STORAGE: note(
    oneOf(['disk', 's3']).default('disk'),
    'Where the bytes of files lie: below `DATA_DIR/storage`, or in a bucket of an S3-compatible server. Processes on several machines need `s3`.',
  ),
  PLINTH_S3_ENDPOINT: note(
    url('http', 'https').optional(),
    'The address of the S3-compatible server; empty means Amazon S3 in the region.',
  ),
  PLINTH_S3_REGION: note(z.string().default('us-east-1'), 'The region that requests to S3 are signed for.'),
  PLINTH_S3_BUCKET: note(
    z
      .string()
      .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, { error: 'must be the name of a bucket, such as my-files' })
      .optional(),
    'The bucket of S3, which must exist and which nothing else uses.',
  ),
  PLINTH_S3_ACCESS_KEY_ID: note(
    z.string().optional(),
    'The key for S3; empty means that the AWS client looks in its usual places, such as the role of the machine.',
  ),
  PLINTH_S3_SECRET_ACCESS_KEY: note(z.string().optional(), 'The secret that belongs to the key for S3.'),
  PLINTH_S3_FORCE_PATH_STYLE: note(
    onOff('off'),
    'Whether buckets stand in paths and not in host names, as MinIO and most servers beside Amazon want it.',
  ),
  PLINTH_S3_TIMEOUT_MS: note(
    integer(30_000, 100, 600_000),
    'A request to S3 that is not answered for so long is given up; it is sent three times more at most.',
    'ms',
  ),
};
