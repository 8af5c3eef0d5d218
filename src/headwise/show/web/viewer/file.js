// The page in one file: reads the data that is in the document.

import { fileSource } from "./source.js";
import { view } from "./main.js";

view(document.getElementById("viewer"), fileSource(document));
