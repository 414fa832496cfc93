"""Flask: a page of a hundred rows."""

import flask

app = flask.Flask(__name__)


@app.route("/")
def page():
    return flask.render_template_string("{% for i in rows %}<p>{{ i }}</p>{% endfor %}", rows=range(100))
