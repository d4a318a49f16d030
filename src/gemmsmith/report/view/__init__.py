"""Interactive views of one recorded launch: ``gemmsmith view`` and ``gemmsmith.view``.

A page is one HTML file with everything inline. The shell (``shell/``) has the tabs, the player, the keyboard and the
colours; a view fills one tab. A view has two files:

``data/NAME.py``
    ``build(subject: ViewSubject) -> ViewData | None`` chooses from the trace (``docs/trace-format.md``) what the view
    draws, as JSON types. None: this launch has nothing of the kind, and the tab is left out. Keep it small: the page
    with all its views has at most 5 MB. Large lists of numbers go through ``packing.py``.

``views/NAME.js``
    registers the view of that name::

        {
          /** @param {Host} host */
          const create = (host) => {
            // host.root: an empty element to draw into; host.data: what build() returned;
            // host.page: facts of the launch that all views share (title, grid, block, arrays, files, instructions);
            // host.player.go(step), host.redraw(): after something other than the step has changed
            return {
              steps: 10,                              // number of steps the player can be at; 1: nothing moves
              start: 0,                               // the step it opens at
              rate: 4,                                // steps in a second at speed 1
              label: (step) => "loads row 3 of A",    // one short line on what happens in this step
              draw: (step) => {},                     // draws the step; called for each frame and each change
            };
          };
          GS.register({ name: "NAME", create });
        }

    Each file is in a block of its own, because all are joined into one script. ``kit.js`` has what several views need:
    elements, canvases in device pixels, colours by name of a CSS variable, grids of elements, tooltips. Colours are
    read again for each drawing, so that dark mode works. A view must fit into 390 px, say in words what is hovered
    (``host.say``) and work without a mouse where it can.

``registry.py`` lists the views in the order of their tabs. A view that does not come from a trace alone takes what it
needs from ``ViewSubject``.
"""
