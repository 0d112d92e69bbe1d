/**
 * Headers of answers that web servers in front of the platform obey, such as `X-Accel-Redirect`: with one of them the
 * code of a project could have a file of the proxy's sent. Projects may set none, but whether an answer is buffered.
 */
const obeyed = /^x-(?:accel-(?!buffering$).*|sendfile|lighttpd-.*|litespeed-.*|forwarded-.*|real-ip)$/;

/** @param name in lower case */
export const isForProxies = (name: string): boolean => obeyed.test(name);
