import { useSyncExternalStore } from 'react';
import { counted } from '../../client/counted.ts';
import { useProject } from '../../client/project.ts';
import { shownName, sizeText } from './paths.ts';
import { type Upload, clearDone, currentUploads, dropUpload, onUploads, pauseUpload, resumeUpload } from './uploads.ts';

const stateText = ({ state, error, sent, file }: Upload): string => {
  const message = error instanceof Error ? error.message : '';
  switch (state) {
    case 'waiting':
      return 'waits';
    case 'sending':
      return `${sizeText(sent)} of ${sizeText(file.size)}`;
    case 'paused':
      return `paused at ${sizeText(sent)}`;
    case 'retrying':
      return `${message} Goes on by itself.`;
    case 'done':
      return 'uploaded';
    case 'exists':
      return 'There is a file of this name.';
    case 'failed':
      return message;
  }
};

const Actions = ({ upload: { id, state, name } }: { readonly upload: Upload }) => (
  <span className="row">
    {['waiting', 'sending', 'retrying'].includes(state) && (
      <button type="button" onClick={() => pauseUpload(id)} aria-label={`Pause ${name}`}>
        Pause
      </button>
    )}
    {['paused', 'failed'].includes(state) && (
      <button type="button" onClick={() => resumeUpload(id)} aria-label={`Go on with ${name}`}>
        Go on
      </button>
    )}
    {state === 'exists' && (
      <button type="button" className="danger" onClick={() => resumeUpload(id, true)} aria-label={`Replace ${name}`}>
        Replace it
      </button>
    )}
    {state !== 'done' && (
      <button type="button" onClick={() => dropUpload(id)} aria-label={`Cancel ${name}`}>
        Cancel
      </button>
    )}
  </span>
);

const maxShown = 50;

/** Uploads that need a decision come first, then those that are being sent. */
const order: readonly Upload['state'][] = ['exists', 'failed', 'retrying', 'sending', 'paused', 'waiting', 'done'];

const byState = (a: Upload, b: Upload): number => order.indexOf(a.state) - order.indexOf(b.state) || a.id - b.id;

/** The uploads of this window to a bucket. */
export const UploadList = ({ bucket }: { readonly bucket: string }) => {
  const { project } = useProject();
  const all = useSyncExternalStore(onUploads, currentUploads);
  const uploads = all.filter((upload) => upload.projectId === project.id && upload.bucket === bucket).toSorted(byState);
  if (uploads.length === 0) return null;
  const done = uploads.filter(({ state }) => state === 'done').length;
  const [sent, whole] = [
    uploads.reduce((sum, upload) => sum + upload.sent, 0),
    uploads.reduce((sum, { file }) => sum + file.size, 0),
  ];
  return (
    <section className="uploads" aria-label="Uploads">
      <div className="row">
        <h2>Uploads</h2>
        <span className="muted" role="status">
          {done} of {counted(uploads.length, 'file')}
        </span>
        <progress
          aria-label="All uploads"
          value={whole === 0 ? done : sent}
          max={whole === 0 ? uploads.length : whole}
        />
        {done > 0 && (
          <button type="button" onClick={clearDone}>
            Clear the list
          </button>
        )}
      </div>
      <ul>
        {uploads.slice(0, maxShown).map((upload) => (
          <li key={upload.id} className={upload.state}>
            <bdi className="name">{shownName(upload.name)}</bdi>
            <progress aria-label={upload.name} value={upload.sent} max={Math.max(1, upload.file.size)} />
            <span className={['failed', 'exists'].includes(upload.state) ? 'bad' : 'muted'}>{stateText(upload)}</span>
            <Actions upload={upload} />
          </li>
        ))}
      </ul>
      {uploads.length > maxShown && <p className="muted">and {uploads.length - maxShown} more</p>}
    </section>
  );
};
