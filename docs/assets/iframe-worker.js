// Search from disk: browsers refuse a Worker there, so its script runs in a hidden frame, which has a scope of its own.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #inbox = [];

    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const scope = this.frame.contentWindow;
      scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = scope.document.createElement("script");
      script.src = new URL(url, location);
      script.addEventListener("load", () => {
        for (const data of this.#inbox) this.#deliver(data);
        this.#inbox = null;
      });
      scope.document.body.append(script);
    }

    // What comes before the script has loaded waits for it.
    postMessage(data) {
      if (this.#inbox) this.#inbox.push(data);
      else this.#deliver(data);
    }

    terminate() {
      this.frame.remove();
    }

    #deliver(data) {
      const scope = this.frame.contentWindow;
      scope.dispatchEvent(new scope.MessageEvent("message", { data }));
    }
  };
}
