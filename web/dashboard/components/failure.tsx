import { ApiError } from '../client/api.ts';
import { copyText } from '../client/clipboard.ts';
import { faultsOf, isAt } from '../client/faults.ts';

interface FailureProps {
  readonly error: unknown;
  readonly onRetry?: () => void;
  /** Fields beside which their problems stand already. */
  readonly fields?: readonly string[];
}

/** Shows an error with its hint and its request id, by which operators find it in the log. */
export const Failure = ({ error, onRetry, fields = [] }: FailureProps) => {
  const known = error instanceof ApiError ? error : null;
  return (
    <div role="alert" className="failure">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {faultsOf(error)
        .filter((fault) => !fields.some((field) => isAt(fault, field)))
        .map(({ path, message }, place) => (
          // oxlint-disable-next-line react/no-array-index-key -- details never change
          <p key={place}>
            <code>{path}</code> {message}
          </p>
        ))}
      {known?.hint && <p className="muted">{known.hint}</p>}
      <p className="row">
        {onRetry && (
          <button type="button" onClick={onRetry}>
            Try again
          </button>
        )}
        {known?.requestId && (
          <button
            type="button"
            className="quiet"
            title="Copy the id of the request"
            onClick={() => void copyText(known.requestId ?? '')}
          >
            {known.code} · {known.requestId}
          </button>
        )}
      </p>
    </div>
  );
};
