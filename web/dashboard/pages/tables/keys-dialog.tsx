import { Dialog } from '../../components/dialog.tsx';

const keys: readonly (readonly [string, string])[] = [
  ['Arrows, Page up and down, Home, End', 'move; with Ctrl to the edge, with Shift the selection grows'],
  ['Enter, F2, or a letter', 'edits the cell'],
  ['Enter, Tab', 'keeps what was typed; Alt-Enter begins a new line'],
  ['Escape', 'gives up what was typed'],
  ['Ctrl-C, Ctrl-V', 'copies a range, and pastes one from a spreadsheet'],
  ['Ctrl-Backspace', 'sets the selected cells to NULL'],
  ['Ctrl-Z, Ctrl-Shift-Z', 'undoes and repeats changes that are not saved'],
  ['Ctrl-S', 'saves all changes'],
  ['Tab', 'leaves the table'],
];

/** The keys of the table, in words. */
export const KeysDialog = ({ onClose }: { readonly onClose: () => void }) => (
  <Dialog title="Keys of the table" onClose={onClose}>
    <dl className="facts">
      {keys.map(([key, does]) => (
        <div key={key}>
          <dt>{key}</dt>
          <dd>{does}</dd>
        </div>
      ))}
    </dl>
    <p className="row end">
      <button type="button" onClick={onClose}>
        Close
      </button>
    </p>
  </Dialog>
);
