/** The addresses of a project's files, for members. */

export const filesRoot = (projectId: string): string => `/projects/${projectId}/storage/v1`;

/** The name with its slashes, each part escaped. */
export const escapedName = (name: string): string => name.split('/').map(encodeURIComponent).join('/');

export const objectPath = (projectId: string, bucket: string, name: string): string =>
  `${filesRoot(projectId)}/object/authenticated/${encodeURIComponent(bucket)}/${escapedName(name)}`;

export const previewPath = (projectId: string, bucket: string, name: string): string =>
  `${filesRoot(projectId)}/preview/${encodeURIComponent(bucket)}/${escapedName(name)}`;

/** The name within the folder; the folder is empty at the root of its bucket. */
export const within = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);

export const lastPart = (name: string): string => name.slice(name.lastIndexOf('/') + 1);

/** Marks that change the direction of text, by which `txt.exe` looks like `exe.txt`, are written out. */
export const shownName = (name: string): string =>
  name.replaceAll(
    /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/g,
    (mark) => `‹U+${(mark.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}›`,
  );

const units = ['bytes', 'KB', 'MB', 'GB', 'TB'] as const;

/** Bytes as people read them: `1.5 MB`. */
export const sizeText = (bytes: number): string => {
  if (bytes === 1) return '1 byte';
  const step = bytes < 1024 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** step;
  return `${value.toLocaleString('en', { maximumFractionDigits: step === 0 ? 0 : 1 })} ${units[step] ?? ''}`;
};
