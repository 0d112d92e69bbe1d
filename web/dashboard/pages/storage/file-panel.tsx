import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { send } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Failure } from '../../components/failure.tsx';
import { escapedName, filesRoot, lastPart, objectPath, previewPath, shownName, sizeText } from './paths.ts';

interface Info {
  readonly size: number;
  readonly content_type: string;
  readonly etag: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Larger pictures would be fetched whole to be looked at. */
const maxPictureBytes = 20 * 1024 * 1024;

const isPicture = ({ content_type: type, size }: Info): boolean =>
  /^image\/(?:png|jpeg|gif|webp|avif|svg\+xml|bmp|x-icon)/.test(type) && size <= maxPictureBytes;

const isText = ({ content_type: type }: Info): boolean =>
  /^text\/|[/+](?:json|xml|javascript|x-ndjson|yaml|toml|sql|x-sh)\b/.test(type);

/** A picture in which nothing runs, or the beginning of a text in a frame in which nothing runs. */
const Preview = ({ bucket, name, info }: { readonly bucket: string; readonly name: string; readonly info: Info }) => {
  const { project } = useProject();
  // Another content is another address: the browser must not show what was there before.
  const version = `?version=${encodeURIComponent(info.etag)}`;
  if (isPicture(info))
    return (
      <img
        className="preview"
        alt={`Preview of ${lastPart(name)}`}
        src={objectPath(project.id, bucket, name) + version}
      />
    );
  if (isText(info))
    return (
      <iframe
        className="preview"
        title={`The beginning of ${lastPart(name)}`}
        sandbox=""
        src={previewPath(project.id, bucket, name) + version}
      />
    );
  return <p className="muted">There is no preview of this type.</p>;
};

const hours = [
  [1, 'an hour'],
  [24, 'a day'],
  [24 * 7, 'a week'],
  [24 * 365, 'a year'],
] as const;

const SignedLink = ({ bucket, name }: { readonly bucket: string; readonly name: string }) => {
  const { project } = useProject();
  const sign = useMutation({
    mutationFn: async (expiresIn: number) => {
      const at = `${filesRoot(project.id)}/object/sign/${encodeURIComponent(bucket)}/${escapedName(name)}`;
      const headers = { 'content-type': 'application/json' };
      const { body } = await send(at, { method: 'POST', headers, body: JSON.stringify({ expiresIn }) });
      const token = (body as { signedURL: string }).signedURL.split('?token=').at(-1) ?? '';
      return `${project.rest_url}/storage/v1/object/sign/${encodeURIComponent(bucket)}/${escapedName(name)}?token=${token}`;
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    sign.mutate(Number(fieldOf(event.currentTarget, 'hours')) * 3600);
  };
  return (
    <>
      <form className="row" onSubmit={submit}>
        <label className="inline">
          A link for everybody, for
          <select name="hours">
            {hours.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <button type="submit" disabled={sign.isPending}>
          Sign a link
        </button>
      </form>
      {sign.error && <Failure error={sign.error} />}
      {sign.data !== undefined && <Copyable label="Link" text={sign.data} />}
    </>
  );
};

interface FilePanelProps {
  readonly bucket: string;
  readonly isPublic: boolean;
  readonly name: string;
  readonly onMove: () => void;
  readonly onDelete: (size: number) => void;
  readonly onClose: () => void;
}

/** One file: what is known of it, how it looks, and what can be done with it. */
export const FilePanel = ({ bucket, isPublic, name, onMove, onDelete, onClose }: FilePanelProps) => {
  const { project, role } = useProject();
  const [isShown, setShown] = useState(false);
  const mayWrite = atLeast(role, 'developer');
  const info = useQuery({
    queryKey: ['file', project.id, bucket, name],
    queryFn: async () => {
      const at = `${filesRoot(project.id)}/object/info/authenticated/${encodeURIComponent(bucket)}/${escapedName(name)}`;
      return (await send(at, {})).body as Info;
    },
  });
  return (
    <section className="file-panel" aria-label="File">
      <div className="row">
        <h2>
          <bdi>{shownName(lastPart(name))}</bdi>
        </h2>
        <button type="button" className="quiet" onClick={onClose}>
          Close
        </button>
      </div>
      {info.error && <Failure error={info.error} onRetry={() => void info.refetch()} />}
      {info.data && (
        <>
          <dl className="facts">
            <dt>Size</dt>
            <dd>{sizeText(info.data.size)}</dd>
            <dt>Type</dt>
            <dd>{info.data.content_type}</dd>
            <dt>Uploaded</dt>
            <dd>{new Date(info.data.updated_at).toLocaleString()}</dd>
            <dt>SHA-256</dt>
            <dd>
              <code>{info.data.etag.replaceAll('"', '')}</code>
            </dd>
          </dl>
          <p className="row">
            <a className="button" href={objectPath(project.id, bucket, name)} download={lastPart(name)}>
              Download
            </a>
            {mayWrite && (
              <>
                <button type="button" onClick={onMove}>
                  Move or rename
                </button>
                <button type="button" onClick={() => onDelete(info.data.size)}>
                  Delete
                </button>
              </>
            )}
          </p>
          {isPublic && (
            <Copyable
              label="Public address"
              text={`${project.rest_url}/storage/v1/object/public/${encodeURIComponent(bucket)}/${escapedName(name)}`}
            />
          )}
          {mayWrite && !isPublic && <SignedLink bucket={bucket} name={name} />}
          {isShown ? (
            <Preview bucket={bucket} name={name} info={info.data} />
          ) : (
            <button type="button" onClick={() => setShown(true)}>
              Show a preview
            </button>
          )}
        </>
      )}
    </section>
  );
};
