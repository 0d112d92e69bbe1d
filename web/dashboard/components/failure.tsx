import { ApiError } from '../client/api.ts';

interface FailureProps {
  readonly error: unknown;
  readonly onRetry?: () => void;
}

interface Detail {
  readonly path?: string;
  readonly message?: string;
}

const detailsOf = (error: ApiError): readonly Detail[] =>
  Array.isArray(error.details) ? (error.details as readonly Detail[]) : [];

/** Shows an error with its hint and its request id, by which operators find it in the log. */
export const Failure = ({ error, onRetry }: FailureProps) => {
  const known = error instanceof ApiError ? error : null;
  return (
    <div role="alert" className="failure">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {known !== null &&
        detailsOf(known).map(({ path, message }, place) => (
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
            onClick={() => void navigator.clipboard.writeText(known.requestId ?? '')}
          >
            {known.code} · {known.requestId}
          </button>
        )}
      </p>
    </div>
  );
};
