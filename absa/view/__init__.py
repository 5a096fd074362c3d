"""`absa view` and `/view` of the server: type a text, watch the graph, ask what if, browse runs."""
