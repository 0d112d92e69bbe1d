import type { NewUpload } from './uploads.ts';
import { within } from './paths.ts';

/** More files at once are an accident, such as a dropped node_modules. */
export const maxFiles = 10_000;

const readAll = async (reader: FileSystemDirectoryReader): Promise<readonly FileSystemEntry[]> => {
  const all: FileSystemEntry[] = [];
  for (;;) {
    // Each call answers a hundred, until there are no more.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    all.push(...some);
  }
};

const collect = async (entry: FileSystemEntry, folder: string, found: NewUpload[]): Promise<void> => {
  if (found.length > maxFiles) return;
  const name = within(folder, entry.name);
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ name, file });
    return;
  }
  for (const child of await readAll((entry as FileSystemDirectoryEntry).createReader()))
    await collect(child, name, found);
};

/** The files that were dropped, with those in dropped folders. Its first part must run within the event. */
export const droppedFiles = async (data: DataTransfer, folder: string): Promise<readonly NewUpload[]> => {
  const entries = Array.from(data.items, (item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (entries.length === 0) return Array.from(data.files, (file) => ({ name: within(folder, file.name), file }));
  const found: NewUpload[] = [];
  for (const entry of entries) await collect(entry, folder, found);
  return found;
};

/** The files that were chosen, in a folder of theirs when that was chosen. */
export const chosenFiles = (files: FileList | null, folder: string): readonly NewUpload[] =>
  Array.from(files ?? [], (file) => ({ name: within(folder, file.webkitRelativePath || file.name), file }));
