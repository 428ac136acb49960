// The search takes a dash in front of a word as "without". Here flags begin with dashes, so these are left out.
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  const isQuery = typeof message?.data === "string";
  post.call(this, isQuery ? { ...message, data: message.data.replace(/(^|\s)-+/g, "$1") } : message, ...rest);
};
