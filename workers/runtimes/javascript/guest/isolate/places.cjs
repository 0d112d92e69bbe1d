'use strict';
/** The file of the script that user code stands in. */
const place = /\bfunction\.js:(\d+)/;

/**
 * Lets stacks of a bundle name the files that it was made of. Only lines have to be translated: a bundle keeps the
 * columns, and the lines of each part in a row.
 * @param text JSON, `{files: [path], places: [[line, index of the file, line in the file]]}`
 */
function nameFiles(text) {
  let table;
  const inFile = (whole, line) => {
    table ??= JSON.parse(text);
    const found = table.places.findLast(([first]) => first <= line);
    return found === undefined ? whole : `${table.files[found[1]]}:${line - found[0] + found[2]}`;
  };
  Error.prepareStackTrace = (error, frames) => {
    // oxlint-disable-next-line typescript/no-base-to-string -- a frame has a text of its own
    const lines = frames.map((frame) => `\n    at ${frame.toString().replace(place, inFile)}`);
    return headOf(error) + lines.join('');
  };
}

function headOf(error) {
  try {
    return Error.prototype.toString.call(error);
  } catch {
    return 'Error';
  }
}

module.exports = { nameFiles };
