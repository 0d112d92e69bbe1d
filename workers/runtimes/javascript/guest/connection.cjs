'use strict';
const { Socket } = require('node:net');

const headerBytes = 4;
/** The host ends a guest that sends a longer one. */
const maxFrameBytes = 16 * 1024 * 1024;

/** Not `process.exit()`: that waits for the threads of isolates, and user code on them may never end. */
const end = () => process.kill(process.pid, 'SIGKILL');

/** Frames (length, big endian, and JSON text) on a file descriptor. The process ends with the connection. */
function connect(fd, onMessage) {
  const socket = new Socket({ fd, readable: true, writable: true });
  let chunks = [];
  let bytes = 0;
  let wanted = headerBytes;

  socket.on('data', (chunk) => {
    chunks.push(chunk);
    bytes += chunk.length;
    while (bytes >= wanted) {
      const all = Buffer.concat(chunks, bytes);
      chunks = [all];
      wanted = headerBytes + all.readUInt32BE(0);
      if (bytes < wanted) return;
      chunks = [all.subarray(wanted)];
      bytes -= wanted;
      const body = all.toString('utf8', headerBytes, wanted);
      wanted = headerBytes;
      onMessage(JSON.parse(body));
    }
  });
  socket.on('close', end);
  socket.on('error', end);

  /** False for a message that is too long to be sent. */
  const send = (message) => {
    const text = JSON.stringify(message);
    const length = Buffer.byteLength(text);
    if (length > maxFrameBytes) return false;
    const frame = Buffer.allocUnsafe(headerBytes + length);
    frame.writeUInt32BE(length);
    frame.write(text, headerBytes);
    socket.write(frame);
    return true;
  };
  return { send };
}

module.exports = { connect };
