// The page in one file: reads the data that is in the document.

import { fileSource } from "./data/source.js";
import { view } from "./shell/main.js";

// a page inside a frame of another has no address of its own
view(document.getElementById("viewer"), fileSource(document), { address: location.protocol !== "about:" });
