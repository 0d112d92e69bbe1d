import type { ServiceError } from '#lib/errors.ts';

/** Failures as clients of the OpenFeature Remote Evaluation Protocol read them. */

const codes: Readonly<Record<string, string>> = {
  invalid_json: 'PARSE_ERROR',
  validation_failed: 'INVALID_CONTEXT',
  payload_too_large: 'INVALID_CONTEXT',
  unsupported_media_type: 'PARSE_ERROR',
};

/** The flag that a path ends with. */
const keyIn = (path: string): string | undefined => /\/evaluate\/flags\/([^/]{1,300})$/.exec(path)?.[1];

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

export const ofrepErrorBody = (error: ServiceError, path: string, requestId: string): Record<string, unknown> => {
  const key = keyIn(path);
  const isMissingFlag = key !== undefined && error.code === 'not_found';
  return {
    ...(key !== undefined && { key: decoded(key) }),
    errorCode: isMissingFlag ? 'FLAG_NOT_FOUND' : (codes[error.code] ?? 'GENERAL'),
    errorDetails: error.message,
    request_id: requestId,
  };
};
