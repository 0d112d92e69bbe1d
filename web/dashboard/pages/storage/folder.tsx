import { useQueryClient } from '@tanstack/react-query';
import { type DragEvent, useEffect, useRef, useState } from 'react';
import { Link } from 'wouter';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { useSearch } from '../../client/search.ts';
import { Failure } from '../../components/failure.tsx';
import { type Bucket, BucketSettings } from './bucket-dialogs.tsx';
import { DeleteDialog, MoveDialog } from './changes.tsx';
import { chosenFiles, droppedFiles, maxFiles } from './dropped.ts';
import { FileList } from './file-list.tsx';
import { FilePanel } from './file-panel.tsx';
import { type Entry, type FolderView, useFolder } from './folder-pages.ts';
import { lastPart, shownName, sizeText } from './paths.ts';
import { TransferDialog, type TransferOp } from './transfer-dialog.tsx';
import { UploadList } from './upload-list.tsx';
import { type NewUpload, addUploads, onStored } from './uploads.ts';

const keyOf = ({ name, isFolder }: Entry): string => (isFolder ? `${name}/` : name);

/** The folders above, and the folder itself. */
const Crumbs = ({
  bucket,
  folder,
  hrefOf,
}: Pick<FolderView, 'bucket' | 'folder'> & { readonly hrefOf: (folder: string) => string }) => {
  const parts = folder === '' ? [] : folder.split('/');
  return (
    <nav aria-label="Folder" className="crumbs">
      <Link href={hrefOf('')}>{bucket}</Link>
      {parts.map((part, place) => {
        const to = parts.slice(0, place + 1).join('/');
        return (
          <span key={to}>
            {' / '}
            <Link href={hrefOf(to)} aria-current={place === parts.length - 1 ? 'page' : undefined}>
              <bdi>{shownName(part)}</bdi>
            </Link>
          </span>
        );
      })}
    </nav>
  );
};

interface ChooserProps {
  readonly folder: string;
  readonly onFiles: (files: readonly NewUpload[]) => void;
}

/** Two buttons that open the browser's own choice of files, and of a folder. */
const Chooser = ({ folder, onFiles }: ChooserProps) => {
  const [files, directory] = [useRef<HTMLInputElement>(null), useRef<HTMLInputElement>(null)];
  return (
    <>
      {([files, directory] as const).map((ref, place) => (
        <input
          key={place === 0 ? 'files' : 'folder'}
          ref={ref}
          type="file"
          multiple
          hidden
          tabIndex={-1}
          aria-label={place === 0 ? 'Files to upload' : 'Folder to upload'}
          {...(place === 1 && { webkitdirectory: '' })}
          onChange={({ target }) => {
            onFiles(chosenFiles(target.files, folder));
            // The same file may be chosen again.
            target.value = '';
          }}
        />
      ))}
      <button type="button" className="primary" onClick={() => files.current?.click()}>
        Upload files
      </button>
      <button type="button" onClick={() => directory.current?.click()}>
        Upload a folder
      </button>
    </>
  );
};

/** The choice of lines; it holds for one folder. */
const useChoice = (place: string) => {
  const [{ at, chosen }, set] = useState({ at: place, chosen: new Map<string, Entry>() });
  const current = at === place ? chosen : new Map<string, Entry>();
  return {
    entries: [...current.values()],
    has: (entry: Entry) => current.has(keyOf(entry)),
    toggle: (entry: Entry): void => {
      const next = new Map(current);
      if (!next.delete(keyOf(entry))) next.set(keyOf(entry), entry);
      set({ at: place, chosen: next });
    },
    clear: () => set({ at: place, chosen: new Map() }),
  };
};

const viewOf = (bucket: string, search: URLSearchParams): FolderView => ({
  bucket,
  folder: search.get('folder') ?? '',
  search: search.get('q') ?? '',
  column: search.get('sort') === 'changed' ? 'updated_at' : 'name',
  order: search.get('order') === 'desc' ? 'desc' : 'asc',
});

type Open =
  | 'settings'
  | 'move'
  | { readonly remove: readonly Entry[] }
  | { readonly transfer: TransferOp; readonly folder: string }
  | null;

/** Changes parameters of the address; an empty one is left out. */
type SetView = (fields: Readonly<Record<string, string | null>>) => void;

const useView = (bucket: string) => {
  const [search, setSearch] = useSearch();
  const set: SetView = (fields) =>
    setSearch((known) => {
      const next = new URLSearchParams(known);
      for (const [name, value] of Object.entries(fields)) {
        if (value === null || value === '') next.delete(name);
        else next.set(name, value);
      }
      return next;
    });
  return { view: viewOf(bucket, search), opened: search.get('file'), set };
};

interface BarProps {
  readonly bucket: Bucket;
  readonly view: FolderView;
  readonly totals: ReturnType<typeof useFolder>['totals'];
  readonly chosen: readonly Entry[];
  readonly set: SetView;
  readonly onFiles: (files: readonly NewUpload[]) => void;
  readonly onOpen: (what: Open) => void;
}

/** Above the list: where it is, how much it holds, and what can be done there. */
const FolderBar = ({ bucket, view, totals, chosen, set, onFiles, onOpen }: BarProps) => {
  const { project, role } = useProject();
  const [only] = chosen.length === 1 ? chosen : [];
  const folder = only?.isFolder === true ? only.name : undefined;
  const hrefOf = (to: string): string => {
    const query = to === '' ? '' : `?${new URLSearchParams({ folder: to })}`;
    return `/projects/${project.id}/storage/${encodeURIComponent(bucket.id)}${query}`;
  };
  return (
    <>
      <div className="row">
        <Crumbs bucket={bucket.name} folder={view.folder} hrefOf={hrefOf} />
        {bucket.public && <span className="muted">public</span>}
        {totals && (
          <span className="muted" role="status">
            {totals.is_exact ? '' : 'more than '}
            {totals.all_files.toLocaleString('en')} {totals.all_files === 1 ? 'file' : 'files'},{' '}
            {sizeText(totals.all_bytes)}
          </span>
        )}
      </div>
      <div className="row">
        <form
          className="inline"
          onSubmit={(event) => {
            event.preventDefault();
            set({ q: fieldOf(event.currentTarget, 'q') });
          }}
        >
          <label className="inline">
            Name begins with
            <input key={view.search} name="q" defaultValue={view.search} maxLength={200} />
          </label>
        </form>
        {atLeast(role, 'developer') && <Chooser folder={view.folder} onFiles={onFiles} />}
        {folder !== undefined && (
          <>
            <button type="button" onClick={() => onOpen({ transfer: 'move', folder })}>
              Move the folder
            </button>
            <button type="button" onClick={() => onOpen({ transfer: 'copy', folder })}>
              Copy the folder
            </button>
          </>
        )}
        {chosen.length > 0 && (
          <button type="button" onClick={() => onOpen({ remove: chosen })}>
            Delete {chosen.length} chosen
          </button>
        )}
        {atLeast(role, 'admin') && (
          <button type="button" onClick={() => onOpen('settings')}>
            Bucket settings
          </button>
        )}
      </div>
    </>
  );
};

interface DialogsProps {
  readonly open: Open;
  readonly bucket: Bucket;
  readonly buckets: readonly Bucket[];
  readonly file: string | null;
  readonly onRemoved: (entries: readonly Entry[], changed: boolean) => void;
  readonly onTransferred: (changed: boolean) => void;
  readonly onMoved: (to: { readonly bucket: string; readonly name: string } | null) => void;
  readonly onSettings: () => void;
}

const FolderDialogs = (props: DialogsProps) => {
  const { open, bucket, buckets, file, onRemoved, onTransferred, onMoved, onSettings } = props;
  const names = buckets.map(({ id }) => id);
  if (open === 'settings') return <BucketSettings bucket={bucket} onClose={onSettings} />;
  if (open === 'move' && file !== null)
    return <MoveDialog bucket={bucket.id} buckets={names} name={file} onClose={onMoved} />;
  if (typeof open !== 'object' || open === null) return null;
  if ('transfer' in open) {
    const { transfer: op, folder } = open;
    return <TransferDialog {...{ op, folder }} bucket={bucket.id} buckets={names} onClose={onTransferred} />;
  }
  const { remove } = open;
  return <DeleteDialog bucket={bucket.id} entries={remove} onClose={(changed) => onRemoved(remove, changed)} />;
};

const fileEntry = (name: string, size = 0): Entry => ({
  name,
  label: lastPart(name),
  isFolder: false,
  size,
  type: '',
  changedAt: null,
});

/** One folder of a bucket. */
export const Folder = ({ bucket, buckets }: { readonly bucket: Bucket; readonly buckets: readonly Bucket[] }) => {
  const { project, role } = useProject();
  const queries = useQueryClient();
  const { view, opened, set } = useView(bucket.id);
  const pages = useFolder(view);
  const choice = useChoice(`${bucket.id}/${view.folder}`);
  const [dialog, setDialog] = useState<Open>(null);
  const [tooMany, setTooMany] = useState(false);
  const mayWrite = atLeast(role, 'developer');
  const reload = (): void => void queries.invalidateQueries({ queryKey: ['files', project.id] });
  useEffect(
    () =>
      onStored((upload) => {
        if (upload.projectId !== project.id) return;
        void queries.invalidateQueries({ queryKey: ['files', project.id] });
        void queries.invalidateQueries({ queryKey: ['file', project.id, upload.bucket, upload.name] });
      }),
    [project.id, queries],
  );
  const take = (files: readonly NewUpload[]): void => {
    setTooMany(files.length > maxFiles);
    if (files.length <= maxFiles) addUploads({ projectId: project.id, bucket: bucket.id }, files);
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    void droppedFiles(event.dataTransfer, view.folder).then(take);
  };
  const open = (entry: Entry): void =>
    entry.isFolder ? set({ folder: entry.name, file: null, q: null }) : set({ file: entry.name });
  const sort = (column: FolderView['column']): void =>
    set({
      sort: column === 'name' ? null : 'changed',
      order: view.column === column && view.order === 'asc' ? 'desc' : null,
    });
  const { entries: chosen } = choice;
  const writing = {
    has: choice.has,
    toggle: choice.toggle,
    remove: () => chosen.length > 0 && setDialog({ remove: chosen }),
  };
  return (
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions -- files can be chosen by a button as well
    <div
      className="folder"
      {...(mayWrite && { onDragOver: (event: DragEvent) => event.preventDefault(), onDrop: drop })}
    >
      <FolderBar
        bucket={bucket}
        view={view}
        totals={pages.totals}
        chosen={chosen}
        set={set}
        onFiles={take}
        onOpen={setDialog}
      />
      {tooMany && (
        <p role="alert" className="failure">
          At most {maxFiles.toLocaleString('en')} files at once.
        </p>
      )}
      {pages.error && <Failure error={pages.error} onRetry={pages.reload} />}
      <UploadList bucket={bucket.id} />
      <div className="with-panel">
        <div className="fill">
          <FileList
            key={`${view.folder} ${view.search} ${view.column} ${view.order}`}
            label={`Files in ${view.folder === '' ? bucket.name : view.folder}`}
            count={pages.count}
            entryAt={pages.entryAt}
            onVisible={pages.onVisible}
            onOpen={open}
            opened={opened}
            sorted={view}
            onSort={sort}
            choice={mayWrite ? writing : null}
          />
          {!pages.isPending && !pages.error && pages.count === 0 && (
            <p className="empty">
              {view.search === '' ? 'Nothing is here.' : 'No name begins so.'}
              {mayWrite && view.search === '' && ' Drop files here, or choose them with the button.'}
            </p>
          )}
        </div>
        {opened !== null && (
          <FilePanel
            key={opened}
            bucket={bucket.id}
            isPublic={bucket.public}
            name={opened}
            onMove={() => setDialog('move')}
            onDelete={(size) => setDialog({ remove: [fileEntry(opened, size)] })}
            onClose={() => set({ file: null })}
          />
        )}
      </div>
      <FolderDialogs
        open={dialog}
        bucket={bucket}
        buckets={buckets}
        file={opened}
        onSettings={() => {
          setDialog(null);
          reload();
        }}
        onMoved={(to) => {
          setDialog(null);
          if (to === null) return;
          set({ file: to.bucket === bucket.id ? to.name : null });
          reload();
        }}
        onTransferred={(changed) => {
          setDialog(null);
          if (!changed) return;
          choice.clear();
          reload();
        }}
        onRemoved={(entries, changed) => {
          setDialog(null);
          if (!changed) return;
          choice.clear();
          if (entries.some(({ name }) => name === opened)) set({ file: null });
          reload();
        }}
      />
    </div>
  );
};
